"""Keys taken out of text: the ones that this process holds, and what has the form of a provider's key.

What a server, a provider or a library says goes through a :class:`Redactor` before it is recorded, shown or exported:
servers repeat the key that they refuse, and a model repeats what stands in its prompt.
"""

from __future__ import annotations

import json
import os
import re

HIDDEN = "[key]"
_PREFIXES = ("sk", "pk", "rk", "hf", "tvly", "ghp", "gho", "xai", "lsv2", "AIza")
_STARTS = (*(f"{prefix}{joint}" for prefix in _PREFIXES for joint in "-_"), "AIza", "earer", "EARER")
"""What every form of a key holds: most texts hold none of it, and are not searched any further."""
_FORMS = re.compile(
    rf"\b(?:gsk|{'|'.join(_PREFIXES)})[-_](?P<body>[A-Za-z0-9_\-]{{16,}})"
    r"|\bAIza[A-Za-z0-9_\-]{30,}"
    r"|(?i:\bbearer)\s+(?P<bearer>[A-Za-z0-9._~+/=\-]{16,})"
)
_IN_URL = re.compile(r"(?<=://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)")
_NAMES = re.compile(r"(?:_|^)(?:API_?KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST = 8
"""Characters below which a secret is too common a text to look for."""
_WORDLIKE = 20
"""Letters of one case, fewer of which in a row may be a word."""
_RUN = re.compile(r"[A-Za-z0-9]{12,}")


def is_secret(value: str) -> bool:
    """Whether a value is long and odd enough to be looked for in every text: ``none`` or ``EMPTY``, which stand for a
    key where none is needed, are words."""
    return len(value) >= _SHORTEST and not (value.isalpha() and len(value) < _WORDLIKE)


def _random(text: str) -> bool:
    """Whether some part of a text is no word: letters with digits, or longer than words are."""
    if sum(letter.isdigit() for letter in text) >= 6:
        return True
    return any(
        len(run) >= _WORDLIKE or (any(map(str.isdigit, run)) and any(map(str.isalpha, run)))
        for run in _RUN.findall(text)
    )


def _form(found: re.Match[str]) -> str:
    if (body := found["body"]) is not None:
        return HIDDEN if _random(body) else found[0]
    if (token := found["bearer"]) is not None:
        return found[0] if token.isalpha() and (token.islower() or token.istitle()) else HIDDEN
    return HIDDEN


class Redactor:
    """Replaces keys by ``[key]``: `secrets`, the values of this process's variables that are named like keys, what has
    the form of a provider's key, and a login inside a URL. Other text stays as it is."""

    def __init__(self, *secrets: str) -> None:
        values = {value.strip() for name, value in os.environ.items() if _NAMES.search(name.upper())}
        known = sorted(filter(is_secret, values | set(secrets)), key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(value) for value in known)) if known else None

    def __call__(self, text: str) -> str:
        """The text with ``[key]`` in place of every key."""
        text = self.held(text)
        if any(start in text for start in _STARTS):
            text = _FORMS.sub(_form, text)
        return _IN_URL.sub(HIDDEN, text) if "://" in text else text

    def held(self, text: str) -> str:
        """The text without the keys that are known, and nothing else changed: for numbers written as letters, in which
        what looks like a key is none."""
        return text if self._known is None else self._known.sub(HIDDEN, text)

    def in_json(self, text: str) -> str:
        """The same for a text that should be JSON, where a key may be written with escapes."""
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
    """A text without keys: those of this process, `secrets`, and what has the form of one."""
    return Redactor(*secrets)(text)
