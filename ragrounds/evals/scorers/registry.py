"""Scorers by name, and those that fit a question."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ragrounds.contracts import Scorer
from ragrounds.errors import unknown
from ragrounds.evals.scorers.choices import MIRAGE, MIRAGE_PMC_LLAMA, ROBUST, STRICT
from ragrounds.evals.scorers.facts import FACTS
from ragrounds.evals.scorers.overlap import ROUGE_L
from ragrounds.evals.scorers.triplets import TRIPLETS
from ragrounds.records import Question

_ALL: tuple[Scorer, ...] = (MIRAGE, MIRAGE_PMC_LLAMA, STRICT, ROBUST, FACTS, ROUGE_L, TRIPLETS)
SCORERS: Mapping[str, Scorer] = MappingProxyType({made.scorer: made for made in _ALL})
GREEDY_MATCH = "greedy-match"
"""The beginning of every scorer of :mod:`.matching`, which is opened with an embedder and so is not in the list."""

_NEVER_PUBLISHED = ("link", "cmedteb")
"""Families whose multiple-choice form is this project's own."""


def find_scorer(scorer: str) -> Scorer:
    """The scorer of a scorer.

    Raises:
        UserError: no such scorer; names the nearest.
    """
    try:
        return SCORERS[scorer]
    except KeyError:
        raise unknown("scorer", scorer, SCORERS, "ragrounds score --help") from None


def scorers_for(question: Question) -> tuple[Scorer, ...]:
    """The scorers that score this question wherever nothing else is asked for, the published one first."""
    if question.kind == "choice":
        # The published patterns know letters only; options with numbers are for the robust reader.
        if not all(len(label) == 1 and label.isalpha() for label in question.options):
            return (ROBUST,)
        # "Else A" belongs to MIRAGE and to what is compared with it; a ranking or a graph has no such figure.
        return (
            (STRICT, ROBUST) if question.benchmark.partition("/")[0] in _NEVER_PUBLISHED else (MIRAGE, STRICT, ROBUST)
        )
    if question.kind == "extraction":
        return (TRIPLETS,)
    # Statements for a judge (K-QA) are sentences: looking for them as words would find none.
    return (ROUGE_L,) if question.metadata.get("facts") == "statements" else (FACTS, ROUGE_L)


def suits(made: Scorer, question: Question) -> bool:
    """Whether a scorer can be asked for on this question: scorers for choices, extraction and long answers do not
    mix."""
    kind = (
        "choice" if made in (MIRAGE, MIRAGE_PMC_LLAMA, STRICT, ROBUST) else "extraction" if made is TRIPLETS else "long"
    )
    return question.kind == kind
