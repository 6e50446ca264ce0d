"""tiktoken's encodings without a network: LlamaIndex ships the files."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ragrounds.errors import UserError

if TYPE_CHECKING:
    import tiktoken

SHIPPED = ("cl100k_base", "o200k_base", "o200k_harmony")


@functools.lru_cache(maxsize=4)
def tokens_of(encoding: str) -> tiktoken.Encoding:
    """The encoding of that name.

    Raises:
        UserError: it is not among those that can be had offline, and no cache of the user's has it.
    """
    import tiktoken

    own = os.environ.get("TIKTOKEN_CACHE_DIR")
    if own is None:
        if encoding not in SHIPPED:
            raise UserError(
                f"The encoding {encoding!r} is not shipped: take one of {', '.join(SHIPPED)}, or set "
                "TIKTOKEN_CACHE_DIR to a folder that has it."
            )
        os.environ["TIKTOKEN_CACHE_DIR"] = str(_shipped())
    try:
        return tiktoken.get_encoding(encoding)
    except (ValueError, OSError) as problem:
        raise UserError(f"Cannot load the encoding {encoding!r}: {problem}.") from None
    finally:
        if own is None:
            os.environ.pop("TIKTOKEN_CACHE_DIR", None)


def _shipped() -> Path:
    """The folder, found without importing LlamaIndex, which takes a second."""
    found = importlib.util.find_spec("llama_index")
    for root in (found.submodule_search_locations or []) if found else []:
        folder = Path(root) / "core" / "_static" / "tiktoken_cache"
        if folder.is_dir():
            return folder
    raise UserError("llama-index-core has no tiktoken files: install it again, or set TIKTOKEN_CACHE_DIR.")
