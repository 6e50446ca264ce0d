"""How a generated text and the question become a query, as data (R2MED, Section 4.2 and Appendix E.2).

Lexical retrievers get one string. Dense retrievers get one or several strings, whose vectors' mean is searched for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from ragrounds.records import Query

Piece = Literal["text", "document"]
"""The question's own text, or what was generated for it."""
SEPARATOR = " [SEP] "


class Rule(Struct, frozen=True):
    """One row of the table."""

    lexical: tuple[Piece, ...]
    """Joined by spaces."""
    dense: tuple[tuple[Piece, ...], ...]
    """Each inner tuple is one string, joined by ``[SEP]``; the mean is taken over the outer one."""


_MEAN: tuple[tuple[Piece, ...], ...] = (("text",), ("document",))
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "hyde": Rule(lexical=("document",), dense=_MEAN),
        "query2doc": Rule(lexical=("text", "text", "document"), dense=(("text", "document"),)),
        "lamer": Rule(lexical=("text", "document"), dense=_MEAN),
        "answer": Rule(lexical=("document",), dense=_MEAN),
    }
)


def combined(way: str, text: str, document: str) -> Query:
    """The query for a question's `text` and the `document` generated for it."""
    pieces: dict[Piece, str] = {"text": text, "document": document}
    rule = RULES[way]
    return Query(
        " ".join(pieces[piece] for piece in rule.lexical),
        tuple(SEPARATOR.join(pieces[piece] for piece in group) for group in rule.dense),
    )
