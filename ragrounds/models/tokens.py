"""Counting tokens with tiktoken, without a network."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

_NEWER = ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "o1", "o3", "o4", "chatgpt-4o")
"""OpenAI's families on o200k_base; for everything else cl100k_base is near enough to cut a context."""


_LONG = 8000
"""Characters from which a text's count is not remembered."""


def count(text: str, model: str = "") -> int:
    """Tokens of `text`: exact for OpenAI's models, an estimate for others (their tokenizers need downloads)."""
    if len(text) > _LONG:  # thousands of whole documents would stay in memory for the next time
        return _count.__wrapped__(text, _encoding_name(model))
    return _count(text, _encoding_name(model))


@functools.lru_cache(maxsize=8192)
def _count(text: str, encoding: str) -> int:
    # `encode_ordinary`: text like <|endoftext|> in a document is text, not a control token.
    return len(_encoding(encoding).encode_ordinary(text))


def cut(text: str, tokens: int, model: str = "") -> str:
    """The longest beginning of `text` that has at most `tokens` tokens."""
    encoding = _encoding(_encoding_name(model))
    ids = encoding.encode_ordinary(text)
    return text if len(ids) <= tokens else encoding.decode(ids[: max(tokens, 0)], errors="ignore")


def _encoding_name(model: str) -> str:
    return "o200k_base" if model.rsplit("/", 1)[-1].startswith(_NEWER) else "cl100k_base"


@functools.lru_cache(maxsize=4)
def _encoding(name: str) -> tiktoken.Encoding:
    import tiktoken

    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    bundled = _bundled()
    if before is None and bundled is not None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(bundled)
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            os.environ.pop("TIKTOKEN_CACHE_DIR", None)


def _bundled() -> Path | None:
    """LlamaIndex ships the encodings' files. They are found without importing it (1.3 s)."""
    spec = importlib.util.find_spec("llama_index")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root) / "core" / "_static" / "tiktoken_cache"
        if folder.is_dir():
            return folder
    return None
