"""Words of a query in a text, which are marked for readers.

This does not explain a retriever's ranking: a dense retriever needs no common word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragrounds.evals.trace.text_folding import CJK, fold, is_cjk

_WORD = re.compile(rf"[^\W_{CJK}]+|[{CJK}]+")
_COMMON = frozenset(
    "about after all also and any are been but can could did does for from had has have how into its may might more "
    "most not other our out than that the their them then there these they this those was were what when where "
    "which while who whom why will with would you your der die das und oder ein eine les des une est dans".split()
)


def query_terms(query: str) -> frozenset[str]:
    """Return the significant words of a query in the form of :func:`_words`."""
    return frozenset(term for _, _, term in _words(query) if len(term) > 2 or is_cjk(term[0]))


def matching_spans(text: str, terms: frozenset[str]) -> list[tuple[int, int]]:
    """Return begin and end of the words of a text that are among `terms`."""
    return [(begin, end) for begin, end, term in _words(text) if term in terms]


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and form of each word: without case, accents and a plural s; for scripts without spaces, of each
    pair of characters.
    """
    for match in _WORD.finditer(text):
        word, begin = match.group(), match.start()
        if is_cjk(word[0]):
            for index in range(max(1, len(word) - 1)):
                yield begin + index, min(begin + index + 2, match.end()), word[index : index + 2]
        elif (folded := fold(word)) not in _COMMON:
            yield begin, match.end(), folded.removesuffix("s") if len(folded) > 3 else folded
