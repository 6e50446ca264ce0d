"""Reading and evaluation of typed conditions, shared by filters of attempts and by claims about runs.

Both languages are read token by token with :class:`TokenReader`, name what they compare by the table of
:mod:`ragrounds.evals.trace.filter_fields`, and compare with :data:`COMPARISONS`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

Comparison = Literal["<", "<=", ">", ">=", "=", "!="]
COMPARISONS: dict[Comparison, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
"""Comparisons of two numbers, or of a database column with a number."""
SIGNS: dict[str, Comparison] = {**{sign: sign for sign in COMPARISONS}, "==": "=", ":": "="}
"""Comparison of each typed sign."""


class Token(Struct, frozen=True):
    """Smallest part of a typed text."""

    kind: str
    """Name of the pattern's group that matched; ``end`` if nothing is left that the pattern matches."""
    text: str
    position: int

    @property
    def plain(self) -> str:
        """Return the text without case. Quoted text has its quotes, so that it equals no word and no sign."""
        return self.text.casefold()


class TokenReader:
    """Reader of a typed text from left to right.

    Args:
        text: typed text.
        pattern: pattern of a token, with white space before it. Its outermost groups are named by the kinds of tokens.
        source: text of the same length from which quoted tokens are taken; by default `text`.
    """

    def __init__(self, text: str, pattern: re.Pattern[str], source: str = "") -> None:
        self.text, self.position, self._pattern, self._source = text, 0, pattern, source or text

    def match(self, pattern: re.Pattern[str]) -> tuple[Token, int]:
        """Return the token that follows and the position after it."""
        match = pattern.match(self.text, self.position)
        if match is None:
            return Token("end", "", len(self.text)), self.position
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        return Token(kind, (self._source if kind == "quoted" else self.text)[start:end], start), match.end()

    def peek(self) -> Token:
        """Return the next token without moving on."""
        return self.match(self._pattern)[0]

    def take(self, pattern: re.Pattern[str] | None = None) -> Token:
        """Return the next token and move past it."""
        token, self.position = self.match(pattern or self._pattern)
        return token

    def skip(self, *tokens: str) -> str:
        """Move past the next word or sign if it is one of these, and return it; else return an empty text."""
        return self.take().plain if self.peek().plain in tokens else ""
