"""A comparison in sentences: the judges, the run that is ahead by the corrected tests, and the abstract.

All texts are plain and safe to show.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from shlex import quote

from ragrounds.base.specs import without_addresses
from ragrounds.base.text import listed
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.abstract import Abstract, ComparedSystem
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.findings import Conclusion, ScorerFinding, conclusions, finding
from ragrounds.evals.compare.server_noise import ServerNoise
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

_MAX_NAME_LENGTH = 60


def short_models(specs: Iterable[str]) -> dict[str, str]:
    """Return a short name for each model: without parameters, else without addresses, if no other model has the same.

    The names are safe to show.
    """
    distinct = list(dict.fromkeys(specs))
    names = dict(zip(distinct, distinct, strict=True))
    for shorten in (without_addresses, lambda spec: spec.partition("[")[0]):
        counts = Counter(map(shorten, distinct))
        names |= {spec: shorten(spec) for spec in distinct if counts[shorten(spec)] == 1}
    return {spec: one_line(name, _MAX_NAME_LENGTH) for spec, name in names.items()}


def judge_phrase(judges: ScoreJudges, names: Mapping[str, str] | None = None) -> str:
    """Return who gave the verdicts, to be written after "by": a judge, the majority of several, or the possible judges.

    Args:
        judges: the judges of the scores.
        names: judge → name; by default its short name.
    """
    short_names = names or short_models(judges.judges)
    judge_names = [short_names[judge] for judge in judges.judges]
    if not judges.known:
        several = f"a majority among {joined_words(judge_names)}" if judges.panel else joined_words(judge_names, "or")
        return f"{several}: the store does not say"
    return f"the majority of {joined_words(judge_names)}" if judges.panel else judge_names[0]


def judged_by(judges: Sequence[tuple[ScoreJudges, tuple[str, ...]]], names: Mapping[str, str]) -> str:
    """Return who gave the verdicts behind a table's scores, to be written after "judged by"; empty if there were no
    judges.

    Args:
        judges: each set of judges, with the runs that they judged.
        names: run id → name.
    """
    short_names = short_models(judge for score_judges, _ in judges for judge in score_judges.judges)
    if len(judges) == 1:
        return judge_phrase(judges[0][0], short_names)
    return "; ".join(
        f"{judge_phrase(score_judges, short_names)} ({joined_words([names[run] for run in runs])})"
        for score_judges, runs in judges
    )


def kappa_ends(agreement: Agreement) -> str:
    """Return the interval of a kappa, or the reason why it has no interval."""
    if agreement.kappa_low is not None and agreement.kappa_high is not None:
        low, high = (figure_text(end, ".3f") for end in (agreement.kappa_low, agreement.kappa_high))
        return f"95 %: {low} to {high}"
    if 0 < agreement.clusters < FEWEST_FOR_KAPPA:
        return f"no interval: {number_of(agreement.clusters, 'answer')}, {FEWEST_FOR_KAPPA} needed"
    return "no interval: too few answers are labelled differently"


def verdict_lines(
    comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str], prices: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield a verdict for each table that is shown and has scores.

    Args:
        comparison: a comparison of any number of runs.
        scorers: the requested scorers; if empty, the headlines.
        names: run id → name of the run, safe to show.
        prices: run id → its cost, written after the best run by the first headline. If set, the verdicts of the other
            headlines are left out if they only say that nothing differs.
    """
    tables, price, is_headline = comparison.headline_tables(scorers), prices or {}, prices is not None
    runs = [row.run for row in comparison.rows]
    missing_verdicts = "" if scorers else unjudged(comparison.benchmark, [table.scorer for table in tables], runs)
    if missing_verdicts:
        yield missing_verdicts
    for index, table in enumerate(tables):
        scorer_finding = finding(table)
        if index and is_headline and scorer_finding and scorer_finding.kind in ("alone", "none", "untested"):
            continue
        title = accuracy_title(table.scorer) if is_headline and not index else table.scorer
        if table.lines and all(line.outcomes.get("failed") == sum(line.outcomes.values()) for line in table.lines):
            yield f"{title}: nothing can be concluded, as every attempt failed."
        elif scorer_finding is not None and scorer_finding.kind == "alone":
            subject = f"{_unfinished_prefix(comparison, table, {})}{names[scorer_finding.best.run]}"
            costs = f"; {price[scorer_finding.best.run]}" if scorer_finding.best.run in price and not index else ""
            yield (
                f"{title}: {subject} has {alone_words(scorer_finding.best, scorer_finding.unit)}{costs}"
                f"{_judges_suffix(scorer_finding, names)}."
            )
        elif scorer_finding is not None and missing_verdicts:
            # Likeness of words does not show which run is best; the table next to it has its figures.
            if unfinished := _unfinished_prefix(comparison, table, names).removesuffix("; "):
                yield f"{title}: {unfinished}."
        elif scorer_finding is not None and scorer_finding.equal:
            cheapest = _cheapest_tied(scorer_finding, table, names, price) if not index else ""
            yield (
                f"{title}: {_unfinished_prefix(comparison, table, names)}{tie_words(scorer_finding, table, names)}"
                f"{cheapest}{_judges_suffix(scorer_finding, names)}."
            )
        elif scorer_finding is not None:
            run, unfinished = scorer_finding.best.run, _unfinished_prefix(comparison, table, names)
            costs = f" for {price[run]}" if run in price and not index else ""
            rest = f"{unscored_words(scorer_finding.best, 'of its questions ')}{_judges_suffix(scorer_finding, names)}"
            yield f"{title}: {unfinished}{names[run]} {verdict(scorer_finding, names, price=costs)}{rest}."
        elif table.lines and (missing := max(line.overall.missing for line in table.lines)):
            is_withheld = any(line.withheld for line in table.lines)
            reason = "scores are withheld, as the judge fails its probes" if is_withheld else "no answer has a score"
            yield f"{title}: {reason}; {number_of(missing, 'question')} without one."


def accuracy_title(scorer: str) -> str:
    """Return the name of a scorer, which says that it measures accuracy if it reads which option was chosen."""
    record = described(scorer)
    return f"Accuracy ({scorer} reading)" if record.accuracy and "choice" in record.kinds else scorer


def unjudged(benchmark: str, scorer_names: Sequence[str], runs: Sequence[str]) -> str:
    """Return a remark that a judge has yet to decide which answers are right, with its command.

    Empty if a judge already did, or if the scorers that are shown decide it themselves.

    Args:
        benchmark: benchmark whose card may name a judge's scorer as its headline.
        scorer_names: scorers of the tables.
        runs: ids of the runs, for the command.
    """
    card = card_of(benchmark)
    candidates = card.headline if card and card.headline else [described(name).truth for name in scorer_names]
    judge_scorer = next((name for name in candidates if name and described(name).needs_judge), "")
    if not judge_scorer or any(described(name).needs_judge for name in scorer_names):
        return ""
    not_by = f", not by {listed(list(scorer_names))}" if scorer_names else ""
    command = described(judge_scorer).command(runs)
    return f"A judge decides whether answers are right ({judge_scorer}){not_by}, and none is judged yet: `{command}`."


def _unfinished_prefix(comparison: Comparison, table: ScorerTable, names: Mapping[str, str]) -> str:
    """Return a remark on the runs that are not finished, to be written before the verdict; empty if all are
    finished.
    """
    unfinished, left_out = [], {row.run for row in comparison.rows if row.left_out}
    words = dict[str, None]()
    for line in table.lines:
        if not_run := line.outcomes.get("not_run", 0):
            planned, verb = sum(line.outcomes.values()), "given" if line.run in left_out else "made"
            unfinished.append((names.get(line.run, ""), f"({planned - not_run:,} of {planned:,} {verb})"))
            words[f"what is not {verb} {'is in no mean' if verb == 'given' else 'counts as not correct'}"] = None
    if not unfinished:
        return ""
    counted = f"and {joined_words(list(words))}; "
    if not names:
        return f"unfinished {unfinished[0][1]}, {counted}"
    return (
        f"{listed([' '.join(parts) for parts in unfinished])} {'is' if len(unfinished) == 1 else 'are'} unfinished, "
        f"{counted}"
    )


def _judges_suffix(scorer_finding: ScorerFinding, names: Mapping[str, str]) -> str:
    judges = judged_by(scorer_finding.judges, names)
    noise = f", noise {scorer_finding.best.noise}" if scorer_finding.best.noise else ""
    return f"; judged by {judges}{noise}" if judges else ""


MAX_NOT_SEPARATED = 2
"""Largest number of runs that are named as not significantly different from the best."""


def verdict(finding: ScorerFinding, names: Mapping[str, str], price: str = "") -> str:
    """Return the verdict on the run with the best figure, as the rest of a sentence.

    Args:
        finding: the finding under one scorer.
        names: run id → name of every other run.
        price: text that is written after the figure.
    """
    value = plain_figure(finding.best, finding.unit) + price
    not_separated = [names[run] for run in finding.not_separated if run not in finding.reversible]
    if len(not_separated) > MAX_NOT_SEPARATED:  # the table next to it has them all
        not_separated = [not_separated[0], f"{len(not_separated) - 1} others"]
    match finding.kind:
        case "ahead":
            distance = difference_words(finding, names, len(finding.ahead) > 1)
            return f"is significantly better than {all_others(len(finding.ahead))}: {value}, {distance}"
        case "ahead of some":
            count = f"{len(finding.ahead)} of {len(finding.ahead) + len(finding.not_separated)} others"
            rest = f"; not significantly different from {joined_words(not_separated)}" if not_separated else ""
            if reversible := [names[run] for run in finding.not_separated if run in finding.reversible]:
                rest += f"; open attempts could reverse the difference to {joined_words(reversible)}"
            return f"is significantly better than {count}: {value}{rest}"
        case "untested":
            reason = untested_words(finding)
        case "none":
            reason = none_words(finding)
        case "best not separated":
            reason = "its difference to none of the others is significant"
        case "open":
            reason = "attempts that are still open could turn that round" + open_words(finding.best, finding.unit)
    return f"has the best figure, {value}; {reason}"


def none_words(finding: ScorerFinding) -> str:
    """Return the statement that no two runs differ, and the test that shows it."""
    if finding.interval:
        return "the interval of the difference, which alone decides, holds 0"
    if not finding.n_unadjusted:
        return "no difference is significant"
    verb = "is" if finding.n_unadjusted == 1 else "are"
    return (
        f"no difference is significant after correction for {number_of(finding.tests, 'pair')} "
        f"({finding.n_unadjusted:,} {verb} before)"
    )


def untested_words(finding: ScorerFinding) -> str:
    """Return why no test says which runs differ."""
    return f"not tested: {'no test fits these scores' if finding.tests > 1 else 'too few questions'}"


def tie_words(finding: ScorerFinding, table: ScorerTable, names: Mapping[str, str]) -> str:
    """Return the verdict if several runs have the best figure, as a sentence without its full stop."""
    tied = [finding.best.run, *finding.equal]
    text = f"{joined_words([names[run] for run in tied])} tie at {plain_figure(finding.best, finding.unit)}"
    if len(tied) == finding.runs:
        return f"{text}; {untested_words(finding) if finding.kind == 'untested' else 'no difference is significant'}"
    pairs = {(entry.better, entry.worse) for entry in conclusions(table) if entry not in finding.open}
    if worse := [names[line.run] for line in table.lines if all((run, line.run) in pairs for run in tied)]:
        return f"{text}; all are significantly better than {joined_words(worse)}"
    return f"{text}; {untested_words(finding) if finding.kind == 'untested' else none_words(finding)}"


def _cheapest_tied(
    finding: ScorerFinding, table: ScorerTable, names: Mapping[str, str], prices: Mapping[str, str]
) -> str:
    """Return which of the runs with the best figure is the cheapest, with its price; empty if that is not known."""
    tied = [line for line in table.lines if line.run in (finding.best.run, *finding.equal)]
    has_dollars = any(line.cost.dollars for line in table.lines)  # the unit of the prices
    costs = [line.cost.dollars if has_dollars else line.cost.tokens for line in tied]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(tied) or known.count(min(known)) > 1 or not prices:
        return ""
    run = tied[known.index(min(known))].run
    return f"; {names[run]} is the cheapest, {prices[run]}"


def alone_words(line: RunFigures, unit: str) -> str:
    """Return a run's figure in words, with its interval and its number of questions."""
    overall, value, questions = line.overall, plain_figure(line, unit), number_of(line.overall.n, "question")
    figure = f"{value} of {questions}, {TOO_FEW} for an interval"
    if overall.low is not None and overall.high is not None:
        figure = f"{value} (95 %: {in_scale(overall.low, unit, 1)} to {in_scale(overall.high, unit, 1)}), {questions}"
    return figure + open_words(line, unit) + unscored_words(line, "more ")


def open_words(line: RunFigures, unit: str) -> str:
    """Return how many attempts failed or wait for a person, and the figure they could lead to; empty if there
    are none.
    """
    attempts = sum(line.outcomes.values())
    words = {"failed": "failed", "paused": "wait for a person"}
    open_attempts = [
        f"{count:,} of {attempts:,} attempts {status}"
        for name, status in words.items()
        if (count := line.outcomes.get(name))
    ]
    best = f", at best {in_scale(line.overall.best, unit)}" if open_attempts and line.overall.best is not None else ""
    return f"; {joined_words(open_attempts)}{best}" if open_attempts else ""


def unscored_words(line: RunFigures, of: str) -> str:
    """Return how many questions are in no mean because their score is missing; empty if none is missing.

    Args:
        line: figures of a run.
        of: text that is written after the number, with a space.
    """
    missing = line.overall.missing
    return f"; {missing:,} {of}{'has' if missing == 1 else 'have'} no score" if missing else ""


def plain_figure(line: RunFigures, unit: str) -> str:
    """Return a run's figure with its unit."""
    return f"{in_scale(line.overall.value, unit)} {'%' if unit == 'percent' else unit}"


def difference_words(finding: ScorerFinding, names: Mapping[str, str], with_names: bool) -> str:
    """Return the distance between the best run and the nearest run that it is significantly better than.

    Args:
        finding: a finding with such a run.
        names: run id → name.
        with_names: True if the nearest run is to be named.
    """
    nearest: Conclusion = finding.ahead[0]
    nearest_name = f" on the nearest, {names[nearest.worse]}" if with_names else ""
    # If lower is better, the best run is below the others.
    distance, low, high = (
        (nearest.difference, nearest.low, nearest.high)
        if finding.direction == "higher"
        else (-nearest.difference, -nearest.high, -nearest.low)
    )
    unit = "points" if finding.unit == "percent" else finding.unit
    text = f"{difference_text(distance, finding.unit)} {unit}{nearest_name}"
    return f"{text} (95 %: {ends(low, high, finding.unit, signed=True)})"


def all_others(count: int) -> str:
    """Return "the other", "both others" or "all N others"."""
    return {1: "the other", 2: "both others"}.get(count, f"all {count} others")


def noise_words(noise: ServerNoise, names: Mapping[str, str], runs: int) -> str:
    """Return which share of the answers changed when last calls were made again, as a sentence.

    Args:
        noise: the changes.
        names: run id → name.
        runs: number of runs of the comparison; if these are fewer, they are named.
    """

    def share(figure: Figure, what: str, more: str = "") -> str:
        """Return a share with its interval."""
        interval = ends(figure.low, figure.high, "percent", 0)
        return f"{in_scale(figure.value, 'percent', 0)} % of the {what} (95 %: {interval}{more})"

    of_runs = f" of {listed([names[run] for run in noise.runs])}" if len(noise.runs) < runs else ""
    least = "at least " if noise.is_lower_bound else ""
    scores = f" and {share(noise.scores, 'scores')}" if noise.scores else ""
    texts = share(noise.texts, f"texts{of_runs}", f", {number_of(noise.texts.n, 'question')}")
    return f"The same last calls, made again, changed {least}{texts}{scores}."


_MAX_NAMED = 8
"""Maximum number of systems that a sentence names."""
_LACK_MEANINGS = {
    "not_run": "not made yet; they count as not correct",
    "not_given": "not among what was imported; no mean counts them",
    "failed": "failed; they count as not correct",
    "paused": "waiting for a person's answer; they count as not correct",
    "unjudged": "without a verdict of the judge; no mean counts them",
    "withheld": "withheld, as the judge fails its probes; no mean counts them",
    "unscored": "without a score; no mean counts them",
}
"""Meaning of each kind of missing result, written after the number of attempts or questions."""


def who_answered(abstract: Abstract, names: Mapping[str, str]) -> str:
    """Return who answered what, with which models, and when."""
    systems, questions = abstract.systems, number_of(abstract.questions, "question")
    system_names = f" ({joined_words([names[system.run] for system in systems])})" if len(systems) <= _MAX_NAMED else ""
    subject = names[systems[0].run] if len(systems) == 1 else f"{number_of(len(systems), 'system')}{system_names}"
    often = "" if abstract.epochs == 1 else f", each {abstract.epochs} times"
    datasets = [safe(name.rpartition("/")[2]) for name in abstract.datasets]
    parts = f" ({joined_words(datasets)})" if 1 < len(datasets) <= _MAX_NAMED else ""
    asked_models = list(dict.fromkeys(one_line(name, 80) for system in systems for name in system.models))
    model_names = asked_models if len(asked_models) <= _MAX_NAMED else [number_of(len(asked_models), "model")]
    models, period = f"with {joined_words(model_names) or 'models that are not recorded'}", days(systems)
    elsewhere = sum(system.imported for system in systems)
    if elsewhere == len(systems):
        origin = f"{often}; the answers were made elsewhere {models} and imported {period}"
    else:
        origin = f"{often} {models} {period}"
        origin += f"; the answers of {elsewhere} of them were made elsewhere and imported" if elsewhere else ""
    is_partial = any(lack.kind in ("not_run", "not_given") for lack in abstract.missing_results)
    verb = (
        "answered" if not is_partial else "has answered a part of" if len(systems) == 1 else "have answered a part of"
    )
    return f"{subject} {verb} {questions} of {safe(abstract.benchmark)}{parts}{origin}."


def days(systems: Sequence[ComparedSystem]) -> str:
    """Return the day or the span of days of the work (UTC)."""
    return span_of_days([moment for system in systems for moment in (system.began, system.ended)])


def span_of_days(moments: Sequence[float]) -> str:
    """Return the day or the span of days of some moments (UTC)."""
    first, last = (time.strftime("%Y-%m-%d", time.gmtime(end)) for end in (min(moments), max(moments)))
    return f"on {first}" if first == last else f"between {first} and {last}"


def lack_lines(abstract: Abstract, names: Mapping[str, str]) -> list[str]:
    """Return a line for each kind of missing result, with the runs concerned."""
    lines = []
    lacks = sorted(abstract.missing_results, key=lambda lack: (list(_LACK_MEANINGS).index(lack.kind), lack.scorer))
    for (kind, scorer), group in groupby(lacks, key=lambda lack: (lack.kind, lack.scorer)):
        same_kind = list(group)
        total = sum(lack.count for lack in same_kind)
        under = f" under {one_line(scorer)}" if scorer else ""
        verb = "" if kind == "failed" else " is" if total == 1 else " are"
        counted = number_of(total, "question" if scorer else "attempt")
        right = sum(lack.right for lack in same_kind)
        counted_right = f", but for {right:,} with a text that is read as right" if right else ""
        by_run = "; ".join(f"{names[lack.run]}: {lack.count:,} of {lack.of:,}" for lack in same_kind)
        lines.append(f"{counted}{under}{verb} {_LACK_MEANINGS[kind]}{counted_right} ({by_run}).")
    return lines


def missing_commands(abstract: Abstract) -> list[str]:
    """Return the commands that produce what is missing, without duplicates.

    Imported answers cannot be produced here.
    """
    imported = {system.run for system in abstract.systems if system.imported}
    commands = [
        described(lack.scorer).command([lack.run]) if lack.scorer else f"ragrounds runs resume {quote(lack.run)}"
        for lack in abstract.missing_results
        if lack.kind != "withheld" and (lack.scorer or lack.run not in imported)
    ]
    return list(dict.fromkeys(commands))
