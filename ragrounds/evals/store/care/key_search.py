"""Search of a store for keys of this environment, in decompressed records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from ragrounds.evals.store.codec import DamagedRecord, decompress_untrusted
from ragrounds.recorder.redaction import secrets_of

KEY = "key"
"""Kind of a finding about a stored key."""


class KeySearch:
    """Search for the values of the variables that hold keys."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._names = {secret.encode("utf-8", "replace"): name for secret, name in secrets_of(variables).items()}

    def names_in(self, row: Iterable[object]) -> list[str]:
        """Return the names of the variables whose values a row of a table holds."""
        if not self._names:
            return []
        texts = b"\0".join(plain_bytes(value) for value in row if isinstance(value, str | bytes))
        return sorted({name for secret, name in self._names.items() if secret in texts})


def plain_bytes(value: str | bytes) -> bytes:
    """Return a text as bytes, and bytes decompressed if they are compressed."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    with suppress(ValueError, DamagedRecord):
        return decompress_untrusted(value)
    return value
