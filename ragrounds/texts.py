"""Text from outside, made storable."""

from __future__ import annotations

from typing import Any


def wellformed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD.

    Python reads lone surrogates from JSON escapes without complaint, but no encoder, database or server takes them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wellformed_all(value: Any) -> Any:
    """:func:`wellformed` for every text inside lists and dictionaries."""
    if isinstance(value, str):
        return wellformed(value)
    if isinstance(value, dict):
        return {key: wellformed_all(item) for key, item in value.items()}
    return [wellformed_all(item) for item in value] if isinstance(value, list | tuple) else value
