"""tiktoken's encodings, available offline: this folder contains the files of the two that OpenAI's models use.

They are OpenAI's (https://openaipublic.blob.core.windows.net/encodings/, MIT licence as tiktoken) and named as in
tiktoken's cache: ``9b5a…`` is ``cl100k_base``, ``fb37…`` is ``o200k_base``, which ``o200k_harmony`` shares. tiktoken
compares their SHA-256 with its own whenever it reads them.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ragrounds.base.errors import UserError

if TYPE_CHECKING:
    import tiktoken

SHIPPED = ("cl100k_base", "o200k_base", "o200k_harmony")


@functools.lru_cache(maxsize=4)
def encoding_of(name: str) -> tiktoken.Encoding:
    """Return an encoding by name, from the folder in TIKTOKEN_CACHE_DIR if that is set.

    Raises:
        UserError: the encoding is neither shipped nor in the user's cache.
    """
    import tiktoken

    user_cache = os.environ.get("TIKTOKEN_CACHE_DIR")
    if user_cache is None:
        if name not in SHIPPED:
            raise UserError(
                f"The encoding {name!r} is not shipped: take one of {', '.join(SHIPPED)}, or set "
                "TIKTOKEN_CACHE_DIR to a folder that has it."
            )
        os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(__file__).parent)
    try:
        return tiktoken.get_encoding(name)
    except (ValueError, OSError) as problem:
        raise UserError(f"Cannot load the encoding {name!r}: {problem}.") from None
    finally:
        if user_cache is None:
            os.environ.pop("TIKTOKEN_CACHE_DIR", None)
