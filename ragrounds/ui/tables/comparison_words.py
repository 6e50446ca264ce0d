"""What a comparison says in words: who gave verdicts, which run is ahead by the corrected tests, and the
abstract. Plain text, safe to show."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from shlex import quote

from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.abstract import Abstract, AbstractSystem
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable
from ragrounds.evals.compare.findings import Conclusion, ScorerFinding, finding
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import FEWEST_FOR_KAPPA, Agreement
from ragrounds.ui.text import (
    TOO_FEW,
    difference_text,
    ends,
    figure_text,
    in_scale,
    joined_words,
    number_of,
    one_line,
    safe,
)

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
        return f"{several}: the store does not say"
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


_LISTED = 5
"""Runs that are named where others are counted."""


def verdict_lines(
    comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str], prices: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A line for each table that is shown, and that has scores.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what the run is called, safe to show.
        prices: run id → what it costs, said of the best by the first headline; under the others then only what differs
            is said.
    """
    tables, price = comparison.shown(scorers), prices or {}
    runs = [row.run for row in comparison.rows]
    if not scorers and (said := unjudged(comparison.benchmark, [table.scorer for table, _ in tables], runs)):
        yield said
    for place, (table, _) in enumerate(tables):
        found = finding(table)
        if place and prices and found is not None and found.kind in ("alone", "none", "untested"):
            continue
        if found is not None and found.kind == "alone":
            who = f"{_unfinished(comparison, table, {})}{names[found.best.run]}"
            costs = f"; {price[found.best.run]}" if found.best.run in price and not place else ""
            yield f"{table.scorer}: {who} has {alone_words(found.best, found.unit)}{costs}{_judged(found, names)}."
        elif found is not None and len(found.equal) == found.runs - 1 > 0:
            yield f"{table.scorer}: {_unfinished(comparison, table, names)}{equal_runs(found)}{_judged(found, names)}."
        elif found is not None:
            run, begun = found.best.run, _unfinished(comparison, table, names)
            costs = f" for {price[run]}" if run in price and not place else ""
            rest = f"{unscored_words(found.best, 'of its questions ')}{_judged(found, names)}"
            yield f"{table.scorer}: {begun}{names[run]} {verdict(found, names, price=costs)}{rest}."
        elif table.lines and (missing := max(line.overall.missing for line in table.lines)):
            yield f"{table.scorer}: no answer has a score; {number_of(missing, 'question')} without one."


def unjudged(benchmark: str, shown: Sequence[str], runs: Sequence[str]) -> str:
    """That a judge says which answers are right, and how; empty where one did, or where the scorers that are shown say
    it themselves.

    Args:
        benchmark: whose card may name a judge's scorer as its headline.
        shown: the scorers of the tables.
        runs: ids, for the command.
    """
    card = card_of(benchmark)
    own = card.headline if card and card.headline else [described(name).truth for name in shown]
    wanted = next((name for name in own if name and described(name).needs_judge), "")
    if not wanted or any(described(name).needs_judge for name in shown):
        return ""
    other = f", not by {listed(list(shown))}" if shown else ""
    command = described(wanted).command(runs)
    return f"Whether answers are right is said by a judge ({wanted}){other}, and none is judged yet: `{command}`."


def _unfinished(comparison: Comparison, table: ScorerTable, names: Mapping[str, str]) -> str:
    """Which runs are not finished, before what is said of the best; empty: all are."""
    said, left_out = [], {row.run for row in comparison.rows if row.left_out}
    words = dict[str, None]()
    for line in table.lines:
        if left := line.outcomes.get("not_run", 0):
            asked, made = sum(line.outcomes.values()), "given" if line.run in left_out else "made"
            said.append((names.get(line.run, ""), f"({asked - left:,} of {asked:,} {made})"))
            words[f"what is not {made} {'is in no mean' if made == 'given' else 'counts as not correct'}"] = None
    if not said:
        return ""
    counted = f"and {joined_words(list(words))}; "
    if not names:
        return f"unfinished {said[0][1]}, {counted}"
    return f"{listed([' '.join(one) for one in said])} {'is' if len(said) == 1 else 'are'} unfinished, {counted}"


def _judged(found: ScorerFinding, names: Mapping[str, str]) -> str:
    said = judged_by(found.judges, names)
    noise = f", noise {found.best.noise}" if found.best.noise else ""
    return f"; judged by {said}{noise}" if said else ""


def verdict(found: ScorerFinding, names: Mapping[str, str], price: str = "") -> str:
    """What is said of the run with the best figure, as the rest of a sentence.

    Args:
        found: under one scorer.
        names: run id → what another run is called.
        price: written behind the figure.
    """
    value = plain_figure(found.best, found.unit) + price + equal_words(found, names)
    untold = [names[run] for run in found.untold]
    if len(untold) > 2:  # a table beside it has them
        untold = [untold[0], f"{len(untold) - 1} others"]
    match found.kind:
        case "ahead":
            apart = difference_words(found, names, len(found.ahead) > 1)
            return f"is significantly better than {all_others(len(found.ahead))}: {value}, {apart}"
        case "ahead of some":
            count = f"{len(found.ahead)} of {len(found.ahead) + len(found.untold)} others"
            rest = f"; not significantly different from {joined_words(untold)}"
            return f"is significantly better than {count}: {value}{rest}"
        case "untested":
            why = "no test says which runs differ"
        case "none":
            why = none_words(found) + open_words(found.best, found.unit)
        case "best untold":
            why = "its difference to none of the others is significant"
        case "open":
            why = "attempts that are still open could turn that round" + open_words(found.best, found.unit)
    return f"has the best figure, {value}; {why}"


def none_words(found: ScorerFinding) -> str:
    """That no two runs differ, and by what."""
    if found.interval:
        return "the interval of the difference, which alone decides, holds 0"
    if not found.beside:
        return "no difference is significant"
    return (
        f"no difference is significant over all pairs; {found.beside:,} of {number_of(found.tests, 'pair')} would be "
        "alone"
    )


def equal_words(found: ScorerFinding, names: Mapping[str, str]) -> str:
    """What stands behind the best figure where others have the same."""
    if not found.equal:
        return ""
    return f", and so {'have' if len(found.equal) > 1 else 'has'} {listed([names[run] for run in found.equal])}"


def equal_runs(found: ScorerFinding) -> str:
    """What is said where all runs have the same figure, as a sentence without its end."""
    whole = "both runs have" if found.runs == 2 else f"all {found.runs:,} runs have"
    tested = "no test says which runs differ" if found.kind == "untested" else "no difference is significant"
    return f"{whole} {in_scale(found.best.overall.value, found.unit)}; {tested}"


def listed(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def alone_words(line: RunFigures, unit: str) -> str:
    """A run's figure with its interval, and of how many questions, in words."""
    whole, value, asked = line.overall, plain_figure(line, unit), number_of(line.overall.n, "question")
    said = f"{value} of {asked}, {TOO_FEW} for an interval"
    if whole.low is not None and whole.high is not None:
        said = f"{value} (95 %: {in_scale(whole.low, unit, 1)} to {in_scale(whole.high, unit, 1)}), {asked}"
    return said + open_words(line, unit) + unscored_words(line, "more ")


def open_words(line: RunFigures, unit: str) -> str:
    """How many attempts failed or wait for a person, and what they could make of the figure; empty: none does."""
    asked = sum(line.outcomes.values())
    words = {"failed": "failed", "paused": "wait for a person"}
    found = [
        f"{count:,} of {asked:,} attempts {said}" for name, said in words.items() if (count := line.outcomes.get(name))
    ]
    best = f", at best {in_scale(line.overall.best, unit)}" if found and line.overall.best is not None else ""
    return f"; {joined_words(found)}{best}" if found else ""


def unscored_words(line: RunFigures, of: str) -> str:
    """How many questions are in no mean, for their score is missing; nothing where there are none.

    Args:
        line: of a run.
        of: written after their number, with a space.
    """
    missing = line.overall.missing
    return f"; {missing:,} {of}{'has' if missing == 1 else 'have'} no score" if missing else ""


def plain_figure(line: RunFigures, unit: str) -> str:
    """A run's figure with its unit."""
    return f"{in_scale(line.overall.value, unit)} {'%' if unit == 'percent' else unit}"


def difference_words(found: ScorerFinding, names: Mapping[str, str], named: bool) -> str:
    """How far the nearest run that the best is significantly better than is behind.

    Args:
        found: with such a run.
        names: run id → what it is called.
        named: whether to name it.
    """
    one: Conclusion = found.ahead[0]
    whom = f" on the nearest, {names[one.worse]}" if named else ""
    # Where lower is better, the best is below the others.
    apart, low, high = (
        (one.difference, one.low, one.high) if found.direction == "higher" else (-one.difference, -one.high, -one.low)
    )
    unit = "points" if found.unit == "percent" else found.unit
    said = f"{difference_text(apart, found.unit)} {unit}{whom}"
    return f"{said} (95 %: {ends(low, high, found.unit, signed=True)})"


def all_others(count: int) -> str:
    """All runs but one, in words."""
    return {1: "the other", 2: "both others"}.get(count, f"all {count} others")


_NAMED = 8
"""Systems up to which a sentence names each."""
_WORDS = {
    "not_run": "not made yet; they count as not correct",
    "not_given": "not among what was imported; no mean counts them",
    "failed": "failed; they count as not correct",
    "paused": "waiting for a person's answer; they count as not correct",
    "unjudged": "without a verdict of the judge; no mean counts them",
    "unscored": "without a score; no mean counts them",
}
"""What a lack means, after the number of attempts or questions."""


def who_answered(abstract: Abstract, names: Mapping[str, str]) -> str:
    """Who answered what, with which models, and when."""
    systems, asked = abstract.systems, number_of(abstract.questions, "question")
    named = f" ({joined_words([names[one.run] for one in systems])})" if len(systems) <= _NAMED else ""
    who = names[systems[0].run] if len(systems) == 1 else f"{number_of(len(systems), 'system')}{named}"
    often = "" if abstract.epochs == 1 else f", each {abstract.epochs} times"
    datasets = [safe(name.rpartition("/")[2]) for name in abstract.datasets]
    parts = f" ({joined_words(datasets)})" if 1 < len(datasets) <= _NAMED else ""
    asked_models = list(dict.fromkeys(one_line(name, 80) for one in systems for name in one.models))
    shown = asked_models if len(asked_models) <= _NAMED else [number_of(len(asked_models), "model")]
    models, when = f"with {joined_words(shown) or 'models that are not recorded'}", days(systems)
    elsewhere = sum(one.imported for one in systems)
    if elsewhere == len(systems):
        made = f"{often}; the answers were made elsewhere {models} and imported {when}"
    else:
        made = f"{often} {models} {when}"
        made += f"; the answers of {elsewhere} of them were made elsewhere and imported" if elsewhere else ""
    begun = any(one.kind in ("not_run", "not_given") for one in abstract.lacks)
    did = "answered" if not begun else "has answered a part of" if len(systems) == 1 else "have answered a part of"
    return f"{who} {did} {asked} of {safe(abstract.benchmark)}{parts}{made}."


def days(systems: Sequence[AbstractSystem]) -> str:
    """On which day, or between which days, the work was done (UTC)."""
    return span_of_days([moment for one in systems for moment in (one.began, one.ended)])


def span_of_days(moments: Sequence[float]) -> str:
    """On which day, or between which days, moments lie (UTC)."""
    first, last = (time.strftime("%Y-%m-%d", time.gmtime(end)) for end in (min(moments), max(moments)))
    return f"on {first}" if first == last else f"between {first} and {last}"


def lack_lines(abstract: Abstract, names: Mapping[str, str]) -> list[str]:
    """A line for each kind of thing that is missing, with the runs that it is missing of."""
    said = []
    lacks = sorted(abstract.lacks, key=lambda one: (list(_WORDS).index(one.kind), one.scorer))
    for (kind, scorer), group in groupby(lacks, key=lambda one: (one.kind, one.scorer)):
        found = list(group)
        total = sum(one.count for one in found)
        under = f" under {one_line(scorer)}" if scorer else ""
        verb = "" if kind == "failed" else " is" if total == 1 else " are"
        what = number_of(total, "question" if scorer else "attempt")
        right = sum(one.right for one in found)
        but = f", but for {right:,} with a text that is read as right" if right else ""
        each = "; ".join(f"{names[one.run]}: {one.count:,} of {one.of:,}" for one in found)
        said.append(f"{what}{under}{verb} {_WORDS[kind]}{but} ({each}).")
    return said


def missing_commands(abstract: Abstract) -> list[str]:
    """The commands that make what is missing, each once. Answers that were imported cannot be made here."""
    imported = {one.run for one in abstract.systems if one.imported}
    made = [
        described(one.scorer).command([one.run]) if one.scorer else f"ragrounds runs resume {quote(one.run)}"
        for one in abstract.lacks
        if one.scorer or one.run not in imported
    ]
    return list(dict.fromkeys(made))
