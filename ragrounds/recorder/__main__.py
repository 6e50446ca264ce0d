"""A host: a process of a system's own. ``PYTHON .../ragrounds/recorder/__main__.py SOCKET LIFELINE open|closed``.

This file alone is run by its path, perhaps by an interpreter that is too old for the others: it loads the folder that
it stands in as the package ``ragrounds_recorder``, so that nothing of our installation is on the path.
"""

import sys
from pathlib import Path


def main():  # type: () -> None
    """Serve the socket that was inherited, until it is closed."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != folder]
    if sys.hexversion < 0x03090000:
        return refuse(f"is Python {sys.version.split()[0]}: expected 3.9 or newer")
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    made = spec_from_file_location(
        "ragrounds_recorder", str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
    )
    assert made is not None
    assert made.loader is not None
    package = module_from_spec(made)
    sys.modules["ragrounds_recorder"] = package
    made.loader.exec_module(package)
    import_module("ragrounds_recorder.host").serve(int(sys.argv[1]), int(sys.argv[2]), closed=sys.argv[3] == "closed")
    return None


def refuse(why):  # type: (str) -> None
    """Say that this cannot begin."""
    import json
    import socket
    import struct

    header = json.dumps({"frame": "failed", "attempt": 0, "text": why}).encode()
    socket.socket(fileno=int(sys.argv[1])).sendall(struct.pack("!II", len(header), 0) + header)


if __name__ == "__main__":
    main()
