"""What a reader of a comparison must know before its figures: what answered in place of a language model, and how an
average over datasets misleads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.evals.compare.no_model import NoModel, kinds_of
from ragrounds.ui.average_words import average_lines
from ragrounds.ui.comparison_verdict import listed

_WORDS: dict[NoModel, str] = {
    "extractive": (
        "come from a built-in extractive baseline, not from a language model: it picks what the passages support by "
        "word overlap. The figures show that the pipeline works and what retrieval brings to such a reader. They say "
        "nothing about any language model, nor about medicine."
    ),
    "stand-in": (
        "come from the stand-in for a model server, not from a language model: what it says follows from the words in "
        "the prompt. The figures show that the pipeline works. They say nothing about any language model, nor about "
        "medicine."
    ),
}


def no_model_sentences(rows: Sequence[RunTotals], names: Mapping[str, str]) -> Iterator[str]:
    """That answers come from no language model, and what their figures then say.

    Args:
        rows: of a comparison.
        names: run id → what a run is called, safe to show.
    """
    for kind, runs in kinds_of([(row.run, row.no_model) for row in rows]).items():
        yield no_model_sentence(kind, [] if len(runs) == len(rows) else [names[run] for run in runs])


def no_model_sentence(kind: NoModel, whose: Sequence[str]) -> str:
    """What figures of such answers say.

    Args:
        kind: what answered.
        whose: names of the systems whose answers these are; none: all.
    """
    return f"The answers{f' of {listed(whose)}' if whose else ''} {_WORDS[kind]}"


def caution_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    """All that stands before the figures of a page.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what a run is called, safe to show.
    """
    yield from no_model_sentences(comparison.rows, names)
    yield from average_lines(comparison, scorers, names)
