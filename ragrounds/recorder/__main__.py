"""Entry point of a host, a user's system's own process. ``PYTHON .../ragrounds/recorder/__main__.py SOCKET LIFELINE
open|closed``.

Only this file is run by its path, perhaps by an interpreter that is too old for the others. It loads its folder as the
package ``ragrounds_recorder``, so that nothing of ragrounds' installation is on the path.
"""

import sys
from pathlib import Path


def main():  # type: () -> None
    """Serve the inherited socket until it is closed."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != folder]
    if sys.hexversion < 0x03090000:
        return refuse(f"is Python {sys.version.split()[0]}: expected 3.9 or newer")
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(
        "ragrounds_recorder", str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules["ragrounds_recorder"] = package
    spec.loader.exec_module(package)
    import_module("ragrounds_recorder.host").serve(int(sys.argv[1]), int(sys.argv[2]), closed=sys.argv[3] == "closed")
    return None


def refuse(reason):  # type: (str) -> None
    """Report over the socket that this host cannot start."""
    import json
    import socket
    import struct

    header = json.dumps({"frame": "failed", "attempt": 0, "text": reason}).encode()
    socket.socket(fileno=int(sys.argv[1])).sendall(struct.pack("!II", len(header), 0) + header)


if __name__ == "__main__":
    main()
