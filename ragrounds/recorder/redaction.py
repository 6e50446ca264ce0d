"""Redaction of keys in text: the keys of this process, and text in the form of a key.

This is the only redaction of the package. It is part of the recorder, so that a user's system's own process has it too.
All text that a system, a tool, a library, a server or an exception gives passes it before it is stored or printed.

A value counts as a key if its variable is named like one and it is none of these: a number, a host, a path, a word.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "[key]"
_FIELD_NAMES = re.compile(
    r"(?:^|_)[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE|DSN)(?:_(?:ID|FILE|PATH))?(?:_|$)"
)
_VARIABLES = re.compile(
    r"KEY(?!WORD|BOARD|NOTE)|TOKEN(?!I[SZ])|SECRET|(?<!COM)(?<!BY)PASS(?!AGE|IVE|ING|THROUGH)|PWD|CREDENTIAL|COOKIE"
    r"|AUTH(?!OR(?!I[SZ]))|DSN|CONN(?:ECTION)?_?STR"
)
"""Parts of the names of variables that hold keys."""
_PROVIDERS = re.compile("PG|AWS_|AZURE_")
"""Beginnings of names of variables whose values are keys if they look random."""
_MIN_LENGTH, _MIN_MIXED_LENGTH = 8, 6
"""Length below which a secret is too common a text to search for; the second if it has letters and digits."""
_MAX_WORD_LENGTH = 20
"""Length of a sequence of letters from which on it is not taken for a word."""
_RUN = re.compile(r"[A-Za-z0-9]{12,}")
_PLACEHOLDER = re.compile(r"<.*>|\[.*\]|\$\{.*\}")
_HOST = re.compile(r"(?:[a-z0-9-]+\.)*(?:[a-z0-9-]+:\d+|[a-z0-9-]+\.[a-z]{2,24}\.?)")
_PATH = re.compile(r"~|\.{0,2}/|[A-Za-z]:\\")
_ADDRESS = re.compile(r"\w+://")
_LOGIN = re.compile(r"(?<=://)[^/\s:@\"'\\]*:([^/\s@\"'\\]+)(?=@)")
_PARTS = re.compile(r"[\s,;=&?\"'{}]+")
_CHARACTERS = r"[A-Za-z0-9_\-]"


def _forms(starts: str, before: str, rest: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return each start of a key with the pattern of the key, before which there is none of the letters `before`."""
    # A pattern that begins with a literal is searched fast.
    return tuple(
        (start, re.compile(rf"{re.escape(start)}(?<!{before}{re.escape(start)}){rest}", re.DOTALL))
        for start in starts.split()
    )


_PREFIXES = "sk- pk- tvly- glpat- xai- xoxb- xoxp- nvapi- pplx- sk_ pk_ rk_ gsk_ hf_ ghp_ gho_ ghs_ github_pat_ lsv2_"
_ASSIGNMENTS = _forms("key= Key= KEY= oken= OKEN= ecret= sig=", r"[^\w?&;/-]", r"(?P<value>[^\s&;,\"'<>()]{8,})")
_ASSIGNMENTS += _forms("assword= ASSWORD= asswd= pwd= Pwd=", r"[^\w\s?&;-]", r"(?P<password>[^\s&;,\"'<>()]{6,})")
_FAMILIES: tuple[tuple[re.Pattern[str], tuple[tuple[str, re.Pattern[str]], ...]], ...] = (
    # One search for the last letter of all prefixes is as fast as the search for one prefix.
    *(
        (
            re.compile(rf"{joint}(?={_CHARACTERS}{{16}})(?:{ends})"),
            _forms(_PREFIXES, r"\w", f"(?P<body>{_CHARACTERS}{{16,}})"),
        )
        for joint in "-_"
        if (ends := "|".join(f"(?<={prefix})" for prefix in _PREFIXES.split() if prefix[-1] == joint))
    ),
    (re.compile("=(?:{})".format("|".join(f"(?<={start})" for start, _ in _ASSIGNMENTS))), _ASSIGNMENTS),
    (
        re.compile("A(?:Iza|KIA|SIA)"),
        _forms("AIza", r"\w", rf"(?P<always>{_CHARACTERS}{{30,}})")
        + _forms("AKIA ASIA", r"\w", r"(?P<body>[A-Z0-9]{16})\b"),
    ),
    (re.compile(r"ya29\."), _forms("ya29.", r"\w", rf"(?P<body>{_CHARACTERS}{{20,}})")),
    (
        re.compile("eyJ"),
        _forms("eyJ", r"\w", rf"(?P<always>{_CHARACTERS}{{8,}}\.{_CHARACTERS}{{8,}}(?:\.{_CHARACTERS}*)*)"),
    ),
    (
        re.compile("-----BEGIN"),
        _forms("-----BEGIN", "-", r"[A-Z ]*PRIVATE KEY-----(?P<always>.*?(?:-----END[A-Z ]*PRIVATE KEY-----|\Z))"),
    ),
    *(
        (re.compile(rf"{start}\s"), _forms(start, "[^bB]", rf"(?P<space>\s+)(?P<{group}>[A-Za-z0-9._~+/=\-]{{16,}})"))
        for start, group in (("earer", "token"), ("EARER", "token"), ("asic", "body"))
    ),
)
"""Fast searches that find something in every text with a key of a family, and the forms of its keys."""
_LONGEST_CACHED = 8000
"""Number of characters of a text from which on its redaction is not remembered."""


def is_secret_name(name: str) -> bool:
    """Return True if a field or variable is named like a key. Its value is never stored, and does not count."""
    return _FIELD_NAMES.search(name.upper()) is not None


def is_secret(value: str) -> bool:
    """Return True if a value is long and unusual enough to be searched for in every text.

    Numbers, hosts, paths, addresses, placeholders and words are not. ``none`` or ``EMPTY``, which are given if no key
    is needed, are words.
    """
    is_mixed = any(map(str.isdigit, value)) and not re.search(r"[-_.]", value)  # unlike the name of a model
    if not any(map(str.isalpha, value)) or len(value) < (_MIN_MIXED_LENGTH if is_mixed else _MIN_LENGTH):
        return False
    if value.isalpha() and len(value) < _MAX_WORD_LENGTH:
        return False
    if _PLACEHOLDER.fullmatch(value) or _ADDRESS.match(value):
        return False
    if _has_random_run(value):
        return not (_PATH.match(value) and os.path.exists(value))  # noqa: PTH110 - a path of text
    return not _PATH.match(value) and not _HOST.fullmatch(value)


def _looks_random(text: str) -> bool:
    """Return True if a text is not made of words: many digits, or a random run."""
    return sum(letter.isdigit() for letter in text) >= 6 or _has_random_run(text)


def _has_random_run(text: str) -> bool:
    """Return True if some part of a text has letters with digits, or is a sequence longer than words are."""
    return any(
        len(run) >= _MAX_WORD_LENGTH or (any(map(str.isdigit, run)) and any(map(str.isalpha, run)))
        for run in _RUN.findall(text)
    )


def secrets_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the keys in variables, each with the name of its variable.

    Passwords and keys inside addresses count under any name, as do parts of a list, a cookie or a connection string
    under a name for keys.
    """
    secrets: dict[str, str] = {}
    for name, value in variables.items():
        named, value = _VARIABLES.search(name.upper()), value.strip()
        parts = _PARTS.split(value.replace("/", " ") if _ADDRESS.match(value) else value)
        values = [match[1] for match in _LOGIN.finditer(value)]
        values += [match[1] for _, form in _ASSIGNMENTS for match in form.finditer(value)]
        if named or _PROVIDERS.match(name):
            values += filter(_looks_random, [*parts, value])
        if named:
            values.append(value)
        secrets.update((secret, name) for text in values for secret in (text, unquote(text)) if is_secret(secret))
    return secrets


def _redact_match(match: re.Match[str]) -> str:
    """Return `[key]` for a text in the form of a key if it is one, otherwise the same text."""
    fields = match.groupdict()
    secret = next(text for name, text in fields.items() if name != "space")
    if "always" in fields:
        return HIDDEN
    if "body" in fields or "value" in fields:
        is_key = _looks_random(secret) and is_secret(secret)
    elif "token" in fields:
        is_key = not (secret.isalpha() and (secret.islower() or secret.istitle()))
    else:
        is_key = is_secret(secret)
    if not is_key:
        return match[0]
    # The name of a value stays; a prefix is a part of its key.
    return HIDDEN if "body" in fields and "space" not in fields else f"{match[0][: -len(secret)]}{HIDDEN}"


class Redactor:
    """Replaces keys by ``[key]`` and leaves other text unchanged.

    Keys are `secrets`, the values of this process's variables that are named like keys, text in the format of a
    provider's key, and a login inside a URL.
    """

    def __init__(self, *secrets: str) -> None:
        known = {*secrets_of(os.environ), *filter(is_secret, (*secrets, *map(unquote, secrets)))}
        # A key may be escaped: in JSON, in Python, in an address.
        forms = {
            form
            for key in known
            for form in (key, json.dumps(key)[1:-1], repr(key)[1:-1], quote(key), quote(key, safe=""))
        }
        self._known = sorted(forms, key=len, reverse=True)
        self._known_bytes = [form.encode("utf-8", "replace") for form in self._known]
        self._remembered: Callable[[str], str] = lru_cache(2048)(self._redact)

    def __call__(self, text: str) -> str:
        """Return the text with ``[key]`` in place of every key. A text without keys is returned itself."""
        return self._remembered(text) if len(text) < _LONGEST_CACHED else self._redact(text)

    def _redact(self, text: str) -> str:
        if len(text) < _MIN_MIXED_LENGTH:
            return text
        text = self.without_keys(text)
        for probe, forms in _FAMILIES:
            if probe.search(text):
                for start, form in forms:
                    text = form.sub(_redact_match, text) if start in text else text
        return _LOGIN.sub(HIDDEN, text) if "://" in text else text

    def without_keys(self, text: str) -> str:
        """Return the text without the known keys and otherwise unchanged.

        For documents and for numbers encoded as letters, in which text that looks like a key is not a key.
        """
        for key in self._known:
            if key in text:
                text = text.replace(key, HIDDEN)
        return text

    def has_known(self, data: bytes) -> bool:
        """Return True if data contain a known key."""
        return any(map(data.__contains__, self._known_bytes))

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


_current: list[tuple[Any, Callable[..., Redactor]]] = []
"""Environment, and the function that returns the redactors that were made for it."""


def redactor(*secrets: str) -> Redactor:
    """Return the redactor of the keys of this process and of `secrets`. It is made again when a variable has changed:
    systems load ``.env`` files.
    """
    variables: Any = getattr(os.environ, "_data", None)  # the comparison of decoded variables would take much longer
    if variables is None or not _current or _current[0][0] != variables:
        _current[:] = [(variables and variables.copy(), lru_cache(8)(Redactor))]
    return _current[0][1](*secrets)


def redacted(text: str, *secrets: str) -> str:
    """Return a text without keys: those of this process, `secrets`, and text in the format of a key."""
    return redactor(*secrets)(text)


class RedactedStream:
    """Text stream whose output is redacted; a key that is written in one piece never reaches `stream`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text without keys, and return the number of its characters."""
        self._stream.write(redacted(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts without keys."""
        for line in lines:
            self.write(line)


def redact_output() -> None:
    """Redact from now on what this process prints, such as tracebacks and logs."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None and not isinstance(stream, RedactedStream):
            setattr(sys, name, RedactedStream(stream))
