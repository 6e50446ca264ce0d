"""Redaction of keys in text: the keys of this process, and any text in the format of a provider's key.

All text from a server, a provider or a library passes a :class:`Redactor` before it is recorded, shown or exported.
Servers repeat the key that they reject, and a model repeats parts of its prompt.
"""

from __future__ import annotations

import json
import os
import re

HIDDEN = "[key]"
_PREFIXES = ("sk", "pk", "rk", "hf", "tvly", "ghp", "gho", "xai", "lsv2", "AIza")
_STARTS = (*(f"{prefix}{joint}" for prefix in _PREFIXES for joint in "-_"), "AIza", "earer", "EARER")
"""Substrings, one of which every format of a key contains. Most texts contain none and are not searched further."""
_FORMS = re.compile(
    rf"\b(?:gsk|{'|'.join(_PREFIXES)})[-_](?P<body>[A-Za-z0-9_\-]{{16,}})"
    r"|\bAIza[A-Za-z0-9_\-]{30,}"
    r"|(?i:\bbearer)\s+(?P<bearer>[A-Za-z0-9._~+/=\-]{16,})"
)
_IN_URL = re.compile(r"(?<=://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)")
_NAMES = re.compile(r"(?:_|^)(?:API_?KEY|TOKEN|SECRET|PASSWORD)$")
_MIN_LENGTH = 8
"""Length below which a secret is too common a text to search for."""
_MAX_WORD_LENGTH = 20
"""Length of a sequence of letters from which on it is not taken for a word."""
_RUN = re.compile(r"[A-Za-z0-9]{12,}")


def is_secret(value: str) -> bool:
    """Return True if a value is long and unusual enough to be searched for in every text.

    ``none`` or ``EMPTY``, which are placeholders if no key is needed, are words.
    """
    return len(value) >= _MIN_LENGTH and not (value.isalpha() and len(value) < _MAX_WORD_LENGTH)


def _looks_random(text: str) -> bool:
    """Return True if some part of a text is not a word: letters with digits, or a sequence longer than words are."""
    if sum(letter.isdigit() for letter in text) >= 6:
        return True
    return any(
        len(run) >= _MAX_WORD_LENGTH or (any(map(str.isdigit, run)) and any(map(str.isalpha, run)))
        for run in _RUN.findall(text)
    )


def _redact_match(match: re.Match[str]) -> str:
    if (body := match["body"]) is not None:
        return HIDDEN if _looks_random(body) else match[0]
    if (token := match["bearer"]) is not None:
        return match[0] if token.isalpha() and (token.islower() or token.istitle()) else HIDDEN
    return HIDDEN


class Redactor:
    """Replaces keys by ``[key]`` and leaves other text unchanged.

    Keys are `secrets`, the values of this process's variables that are named like keys, text in the format of a
    provider's key, and a login inside a URL.
    """

    def __init__(self, *secrets: str) -> None:
        values = {value.strip() for name, value in os.environ.items() if _NAMES.search(name.upper())}
        values_to_hide = sorted(filter(is_secret, values | set(secrets)), key=len, reverse=True)
        self._secrets = re.compile("|".join(re.escape(value) for value in values_to_hide)) if values_to_hide else None

    def __call__(self, text: str) -> str:
        """Return the text with ``[key]`` in place of every key."""
        text = text if self._secrets is None else self._secrets.sub(HIDDEN, text)
        for start in _STARTS:
            if start in text:
                text = _FORMS.sub(_redact_match, text)
                break
        return _IN_URL.sub(HIDDEN, text) if "://" in text else text

    def without_keys(self, text: str) -> str:
        """Return the text without the known keys and otherwise unchanged.

        For numbers encoded as letters, in which text that looks like a key is not a key.
        """
        return text if self._secrets is None else self._secrets.sub(HIDDEN, text)

    def in_json(self, text: str) -> str:
        """Redact a text that should be JSON, in which a key may be escaped."""
        clean = self(text)
        if "\\" in clean:
            try:
                plain = json.dumps(json.loads(clean, strict=False), ensure_ascii=False)
            except (ValueError, RecursionError):
                return clean
            if (cleaner := self(plain)) != plain:
                return cleaner
        return clean


def redacted(text: str, *secrets: str) -> str:
    """Return a text without keys: those of this process, `secrets`, and text in the format of a key."""
    return Redactor(*secrets)(text)
