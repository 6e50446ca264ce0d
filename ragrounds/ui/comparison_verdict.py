"""What a comparison says in a line a scorer: which run is ahead, as far as the corrected tests of its table tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.abstract import ScorerFinding, finding
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable
from ragrounds.evals.compare.conclusions import Conclusion
from ragrounds.ui.judge_words import judged_by
from ragrounds.ui.text import TOO_FEW, figure_text, in_scale, number_of, percent, points

_PAIR = 2
_LISTED = 5
"""Runs that are named where others are counted."""


def verdict_lines(
    comparison: Comparison, scorers: Sequence[str], numbers: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[str]:
    """A line for each table that is shown, and that has scores.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        numbers: run id → number in the tables.
        names: run id → what the run is called, safe to show.
    """
    short = {run: f"#{number}" for run, number in numbers.items()}
    for table, _ in comparison.shown(scorers):
        found = finding(table, comparison.tables)
        if found is not None and len(found.equal) == found.runs - 1 > 0:
            yield f"{table.scorer}: {_unfinished(table, short)}{equal_runs(found)}{_judged(found, short)}."
        elif found is not None:
            run, alone = found.best.run, found.kind == "alone"
            unscored = "" if alone else unscored_words(found.best, "of its questions ")
            who = names[run] if alone else f"{short[run]} {names[run]}"
            begun = _unfinished(table, {} if alone else short)
            rest = f"{unscored}{turned_words(found, short)}{_judged(found, short)}"
            yield f"{table.scorer}: {begun}{who} {verdict(found, short)}{rest}."
        elif table.lines and (missing := max(line.overall.missing for line in table.lines)):
            yield f"{table.scorer}: no answer has a score; {number_of(missing, 'question')} without one."


def _unfinished(table: ScorerTable, names: Mapping[str, str]) -> str:
    """Which runs are not finished, before what is said of the best; empty: all are."""
    said = []
    for line in table.lines:
        if left := line.outcomes.get("not_run", 0):
            asked = sum(line.outcomes.values())
            said.append((names.get(line.run, ""), f"({asked - left:,} of {asked:,} made)"))
    if not said:
        return ""
    counted = "and what is not made counts as not correct; "
    if not names:
        return f"unfinished {said[0][1]}, {counted}"
    return f"{listed([' '.join(one) for one in said])} {'is' if len(said) == 1 else 'are'} unfinished, {counted}"


def _judged(found: ScorerFinding, names: Mapping[str, str]) -> str:
    said = judged_by(found.judges, names)
    return f"; judged by {said}" if said else ""


def verdict(found: ScorerFinding, names: Mapping[str, str]) -> str:
    """What is said of the run with the best figure, as the rest of a sentence.

    Args:
        found: under one scorer.
        names: run id → what another run is called.
    """
    value = in_scale(found.best.overall.value, found.unit)
    value += equal_words(found, names)
    match found.kind:
        case "alone":
            return f"has {alone_words(found.best, found.unit)}"
        case "untested":
            return f"has the best figure, {value}; no test says which runs differ"
        case "none":
            return f"has the best figure, {value}; {none_words(found)}"
        case "best untold":
            return f"has the best figure, {value}; no test tells it from any other"
        case "open":
            return f"has the best figure, {value}; attempts that are still open could turn that round"
        case "ahead":
            whom = all_others(len(found.ahead))
            return f"is ahead of {whom}, {value}: {difference_words(found, names, len(found.ahead) > 1)}"
        case "ahead of some":
            others = len(found.ahead) + len(found.untold)
            rest = listed([names[run] for run in found.untold])
            return f"is ahead of {len(found.ahead)} of {others} others, {value}; not told from {rest}"


def turned_words(found: ScorerFinding, names: Mapping[str, str]) -> str:
    """That the careful reading puts another run first and that answers cannot be read, after a verdict; empty: neither.

    Args:
        found: under one scorer.
        names: run id → what a run is called.
    """
    turned = found.turned
    if turned is None:
        return ""
    mine, other = (in_scale(line.overall.value, found.unit) for line in (turned.best, turned.other))
    order = (
        f"by {turned.scorer} the order is the reverse ({mine}, {other})"
        if found.runs == _PAIR
        else f"by {turned.scorer} {names[turned.other.run]} has the higher figure ({other}, {mine})"
    )
    unread = " and ".join(f"{count:,} of {of:,} answers of {names[run]}" for run, count, of in turned.unread)
    return f". But {order}: {unread} {'is' if turned.unread[-1][1] == 1 else 'are'} unreadable"


def none_words(found: ScorerFinding) -> str:
    """That no two runs differ, and by what."""
    if found.interval:
        return "the interval of the difference, which alone decides, holds 0"
    said = "no two runs differ by the tests"
    if not found.beside:
        return said
    whose = "the difference" if found.tests == 1 else number_of(found.beside, "difference")
    return f"{said}, which decide; the interval of {whose} leaves 0 out"


def equal_words(found: ScorerFinding, names: Mapping[str, str]) -> str:
    """What stands behind the best figure where others have the same."""
    if not found.equal:
        return ""
    return f", and so {'have' if len(found.equal) > 1 else 'has'} {listed([names[run] for run in found.equal])}"


def equal_runs(found: ScorerFinding) -> str:
    """What is said where all runs have the same figure, as a sentence without its end."""
    whole = "both runs have" if found.runs == 2 else f"all {found.runs:,} runs have"
    tested = "no test says which runs differ" if found.kind == "untested" else "no two runs differ by the tests"
    return f"{whole} {in_scale(found.best.overall.value, found.unit)}; {tested}"


def listed(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def alone_words(line: RunFigures, unit: str) -> str:
    """A run's figure with its interval, and of how many questions, in words."""
    asked = number_of(line.overall.n, "question")
    if line.overall.low is None:
        few = f"{figure_words(line, unit).partition(' (')[0]} of {asked}, {TOO_FEW} for an interval"
        return few + unscored_words(line, "more ")
    return f"{figure_words(line, unit)}, {asked}{unscored_words(line, 'more ')}"


def unscored_words(line: RunFigures, of: str) -> str:
    """How many questions are in no mean, for their score is missing; nothing where there are none.

    Args:
        line: of a run.
        of: written after their number, with a space.
    """
    missing = line.overall.missing
    return f"; {missing:,} {of}{'has' if missing == 1 else 'have'} no score" if missing else ""


def figure_words(line: RunFigures, unit: str) -> str:
    """A run's figure with its interval, or that there are too few questions for one."""
    whole = line.overall
    value = f"{in_scale(whole.value, unit)} {'%' if unit == 'percent' else unit}"
    if whole.low is None or whole.high is None:
        return f"{value} ({TOO_FEW} questions for an interval)"
    low, high = (percent(end, 1) if unit == "percent" else figure_text(end, ".4g") for end in (whole.low, whole.high))
    return f"{value} (95 %: {low} to {high})"


def difference_words(found: ScorerFinding, names: Mapping[str, str], named: bool, test: str = "") -> str:
    """How far the nearest run that the best is told from is behind.

    Args:
        found: with such a run.
        names: run id → what it is called.
        named: whether to name it.
        test: written after the interval.
    """
    one: Conclusion = found.ahead[0]
    whom = f" on the nearest, {names[one.worse]}" if named else ""
    # Where lower is better, the best is below the others.
    apart, low, high = (
        (one.difference, one.low, one.high) if found.direction == "higher" else (-one.difference, -one.high, -one.low)
    )
    if found.unit == "percent":
        return f"{points(apart)} points{whom} (95 %: {points(low, 1)} to {points(high, 1)}{test})"
    ends = f"{figure_text(low, '+.4g')} to {figure_text(high, '+.4g')}"
    return f"{figure_text(apart, '+.4g')} {found.unit}{whom} (95 %: {ends}{test})"


def all_others(count: int) -> str:
    """All runs but one, in words."""
    return {1: "the other", 2: "both others"}.get(count, f"all {count} others")
