"""Optional libraries, asked for by what needs them.

Keys and passwords kept out of everything that leaves the store.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

from ragrounds.errors import UserError


def need(module: str, form: str, extra: str = "export") -> Any:
    """Import a module of an extra.

    Raises:
        UserError: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"Exporting {form} needs {module.partition('.')[0]}: pip install 'ragrounds[{extra}]' ({error})."
        ) from error


_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|hf|tvly|ghp|gho|xai|lsv2|AIza)[-_][A-Za-z0-9_\-]{16,}"
    r"|\bAIza[A-Za-z0-9_\-]{30,}|(?i:\bbearer)\s+[A-Za-z0-9._~+/=\-]{16,}"
)
_IN_URL = re.compile(r"(?<=://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)")
_NAMES = re.compile(r"(?:_|^)(?:API_?KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST = 12
"""Characters below which a variable's value is too common a text to look for."""
HIDDEN = "[key]"


class Redactor:
    """Takes out what looks like a key, a password inside a URL, and the values of this process's own variables that
    are named like keys."""

    def __init__(self) -> None:
        values = {value for name, value in os.environ.items() if _NAMES.search(name.upper())}
        known = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(value) for value in known)) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return _IN_URL.sub(HIDDEN, _SHAPES.sub(HIDDEN, text))
