"""Token counts by tiktoken, without a network."""

from __future__ import annotations

import functools

from ragrounds.base.encodings import encoding_of

_NEWER = ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "o1", "o3", "o4", "chatgpt-4o")
"""OpenAI's families on o200k_base; for all others cl100k_base is close enough to cut a context."""


_LONG = 8000
"""Characters from which a text's count is not cached."""


def count(text: str, model: str = "") -> int:
    """Return the tokens of `text`: exact for OpenAI's models, an estimate for others (their tokenizers need
    downloads)."""
    if len(text) > _LONG:  # caching would keep thousands of full documents in memory
        return _count.__wrapped__(text, _encoding_name(model))
    return _count(text, _encoding_name(model))


@functools.lru_cache(maxsize=8192)
def _count(text: str, encoding: str) -> int:
    # `encode_ordinary`: text like <|endoftext|> in a document is text, not a control token.
    return len(encoding_of(encoding).encode_ordinary(text))


def cut(text: str, tokens: int, model: str = "") -> str:
    """Return the longest beginning of `text` that has at most `tokens` tokens."""
    encoding = encoding_of(_encoding_name(model))
    ids = encoding.encode_ordinary(text)
    return text if len(ids) <= tokens else encoding.decode(ids[: max(tokens, 0)], errors="ignore")


def _encoding_name(model: str) -> str:
    return "o200k_base" if model.rsplit("/", 1)[-1].startswith(_NEWER) else "cl100k_base"
