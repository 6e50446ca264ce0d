"""What the detail of an attempt says of its gold documents and of its scores, with what judges replied."""

from __future__ import annotations

from collections.abc import Iterator

from ragrounds.evals.store.hops import FATES, Hop
from ragrounds.records import Score
from ragrounds.ui.text import number_of, one_line, percent
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.tree import LoadedAttempt

_GOLD = 5
"""Gold documents that are named."""
_TITLE = 80
"""Columns of a document's title."""


def gold_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """``gold: Rule 9, found at 3 by search 1, seen``: a line a gold document, by its title where a search found it,
    else by its id."""
    documents = loaded.summary.gold.documents
    for name in documents[:_GOLD]:
        yield _gold_line(loaded, name)
    if len(documents) > _GOLD:
        yield TextBlock(f"and {number_of(len(documents) - _GOLD, 'more gold document')}", "dim")


def _gold_line(loaded: LoadedAttempt, name: str) -> TextBlock:
    found = [(hop, one) for hop in loaded.hops for one in hop.found if name in (one.passage.document, one.passage.id)]
    if not found:
        return TextBlock(f"gold: {one_line(name, _TITLE)}, not found", "trouble" if loaded.hops else "dim")
    first, best = found[0]
    title = next((one_line(one.passage.title, _TITLE) for _, one in found if one.passage.title.strip()), "")
    fate = min((one.fate for _, one in found), key=FATES.index)
    said = f", {fate}" if _is_followed(loaded, first) else ""
    shown = title or one_line(name, _TITLE)
    return TextBlock(f"gold: {shown}, found at {best.rank} by search {first.number}{said}", "gold")


def _is_followed(loaded: LoadedAttempt, hop: Hop) -> bool:
    """Whether a prompt after a search is recorded: only that says what was seen."""
    return hop.untimed or any(one.asked is not None for one in loaded.traced[hop.call + 1 :])


def score_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """A line a score, and below one that a judge gave the judge with what it replied."""
    if not loaded.scores:
        yield TextBlock("not scored", "dim")
    for score in loaded.scores:
        yield _score_line(loaded, score)
        for said in loaded.judged:
            if said.scorer == score.scorer and not said.told:
                yield TextBlock(f"judged by {said.judge}; its reply cannot be told from the others'", "dim", 2)
            elif said.scorer == score.scorer:
                other = f", answered by {said.model}" if said.model and said.model not in said.judge else ""
                yield TextBlock(f"judged by {said.judge}{other}; it replied:", "dim", 2)
                yield TextBlock(said.text.strip() or "(no text)", "note", 4)


def _score_line(loaded: LoadedAttempt, score: Score) -> TextBlock:
    word = "no score" if score.value is None else "right" if score.value >= 1 else "wrong"
    style = {"right": "right", "wrong": "wrong"}.get(word, "dim")
    if score.value is not None and 0 < score.value < 1:
        word, style = "partly", "dim"
    asked, gold = loaded.summary.question, loaded.summary.gold
    read = f"read as {score.prediction!r}, gold {gold.answer!r}" if asked.options else ""
    parts = [f"{score.scorer}: {word}", percent(score.value, 1), score.answer_status, read, score.reason]
    return TextBlock("  ".join(part for part in parts if part), style)
