"""Judges by their names, and who gave the verdicts behind scores, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.evals.judges.score_judges import ScoreJudges
from ragrounds.evals.stats import FEWEST_FOR_KAPPA, Agreement
from ragrounds.ui.text import figure_text, joined_words, number_of, one_line

_LONGEST = 60


def short_judges(specs: Iterable[str]) -> dict[str, str]:
    """Judge → the name of its model without server and parameters, where no other judge has the same; safe to show."""
    known = list(dict.fromkeys(specs))
    heads = Counter(spec.partition("[")[0] for spec in known)
    return {spec: one_line(head if heads[head := spec.partition("[")[0]] == 1 else spec, _LONGEST) for spec in known}


def judge_phrase(found: ScoreJudges, names: Mapping[str, str] | None = None) -> str:
    """Who gave verdicts, after "by": a judge, the majority of several, or those that it may have been.

    Args:
        found: whose verdicts scores rest on.
        names: judge → what it is called; by default its short name.
    """
    called = names or short_judges(found.judges)
    said = [called[judge] for judge in found.judges]
    if not found.known:
        several = f"a majority among {joined_words(said)}" if found.panel else joined_words(said, "or")
        return f"{several}: the store does not tell"
    return f"the majority of {joined_words(said)}" if found.panel else said[0]


def judged_by(judges: Sequence[tuple[ScoreJudges, tuple[str, ...]]], names: Mapping[str, str]) -> str:
    """Who gave the verdicts behind the scores of a table, after "judged by"; empty: nobody.

    Args:
        judges: whose verdicts, with the runs that they are of.
        names: run id → what it is called.
    """
    called = short_judges(judge for found, _ in judges for judge in found.judges)
    if len(judges) == 1:
        return judge_phrase(judges[0][0], called)
    return "; ".join(
        f"{judge_phrase(found, called)} ({joined_words([names[run] for run in runs])})" for found, runs in judges
    )


def kappa_ends(found: Agreement, digits: int = 3) -> str:
    """The interval of a kappa, or why there is none.

    Args:
        found: with a kappa.
        digits: after the point.
    """
    if found.kappa_low is not None and found.kappa_high is not None:
        low, high = (figure_text(end, f".{digits}f") for end in (found.kappa_low, found.kappa_high))
        return f"95 %: {low} to {high}"
    if 0 < found.clusters < FEWEST_FOR_KAPPA:
        return f"no interval: {number_of(found.clusters, 'answer')}, {FEWEST_FOR_KAPPA} needed"
    return "no interval: too few answers are labelled differently"
