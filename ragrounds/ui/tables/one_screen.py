"""A comparison on one screen: the conclusions with accuracy and cost, a line for each run, the frontier, the doubts.

Every test and table is behind ``--full``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from ragrounds.base.records import OUTCOMES
from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable
from ragrounds.evals.compare.figures import QuestionCost
from ragrounds.evals.compare.findings import best_first, conclusions, finding, untested
from ragrounds.evals.compare.published import PrintedFigure
from ragrounds.evals.compare.strategy_steps import StrategyStep
from ragrounds.evals.scorers import described
from ragrounds.models.options import SMOLLM2, SMOLLM2_CAVEAT
from ragrounds.ui.agent_names import short_names
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import NO_FRONTIER, amount, frontier_picture
from ragrounds.ui.tables.comparison_columns import LISTED
from ragrounds.ui.tables.comparison_words import MAX_NOT_SEPARATED, noise_words, unjudged, verdict_lines
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import (
    UNKNOWN_COSTS,
    UNKNOWN_TOKENS,
    difference_text,
    dollars,
    duration,
    ends,
    figure_text,
    first_sentence,
    in_scale,
    joined_words,
    number_of,
    percent,
    safe,
    tokens,
    wrapped,
)

_OTHER_LINES, _PICTURE_LINES = 24, (7, 20)
"""Lines of a terminal that are left to the text around the frontier; least and greatest height of the frontier."""
_PIPED_WIDTH = 80
"""Width of the frontier in a file or a pipe, which has no width of its own."""
_NAME_WIDTH = 30
"""Width in columns beyond which what a run's name has in common with others is shortened."""
_MAX_REMARKS = 3
"""Number of remarks that are printed for many runs; further remarks are counted."""
_MANY_RUNS = 4
"""Number of runs from which on only the first sentence of a note is printed."""
_PRICED_QUESTIONS = 100
"""Number of questions that a price refers to."""


def print_one_screen(
    comparison: Comparison,
    scorers: Sequence[str],
    names: Mapping[str, str],
    console: Console,
    *,
    table_only: bool = False,
) -> None:
    """Print a comparison in at most 25 lines of 80 columns for up to four runs, and one line for each further run.

    Args:
        comparison: a comparison of any number of runs.
        scorers: the requested scorers; if empty, the headlines.
        names: run id → name of the run, safe to show.
        console: where to print.
        table_only: True to leave out the frontier and the doubts.
    """
    width, tables = min(console.width, 100), comparison.headline_tables(scorers)
    conclusion_texts = conclusion_lines(comparison, scorers, names)
    console.print(Text(wrapped(" ".join(conclusion_texts), width)), soft_wrap=True)
    print_table(summary_table(comparison, tables, names), console)
    marks = "; ".join(_mark_sentences(comparison, tables, names))
    remarks = [] if table_only else list(doubt_sentences(comparison, tables, names, width))
    if any(row.usage and row.cost_uncached is None for row in comparison.rows):  # imported answers may have no tokens
        remarks.append(UNKNOWN_COSTS)
    if any(_lacks_tokens(row) for row in comparison.rows):
        remarks.append(UNKNOWN_TOKENS)
    spare = max(0, _MANY_RUNS - len(comparison.rows))  # lines that the table leaves free
    for note in comparison.notes:
        # With its command, if it begins with one: `--full` has the others.
        text = f"{note.partition('. `')[0].removesuffix('.')}." if spare else first_sentence(note)
        remarks.append(f"Note: {safe(text)}")
    most = _MAX_REMARKS + spare
    for line in filter(None, (marks, *remarks[:most])):
        console.print(Text(wrapped(line, width)), soft_wrap=True)
    if (hidden := len(remarks) - most) > 0:
        console.print(Text(f"{number_of(hidden, 'more remark')}: --full."))
    is_drawn = not table_only and bool(tables) and len(comparison.rows) > 2
    if is_drawn and (frontier := tables[0].frontier) is not None and len(frontier.points) > 1:
        least, greatest = _PICTURE_LINES
        height = min(greatest, max(least, console.height - _OTHER_LINES))
        across = console.width if console.is_terminal else min(console.width, _PIPED_WIDTH)
        picture = frontier_picture(frontier, tables[0].scorer, names, with_bounds_note=False)
        console.print(draw(picture, across, height))
    elif is_drawn and (tables[0].unit, tables[0].direction) == ("percent", "higher"):
        console.print(Text(wrapped(f"No picture of cost and score: {NO_FRONTIER}.", width)))


def _lacks_tokens(row: RunTotals) -> bool:
    """Return True if replies came without their tokens: not if there was no reply, or if the answers are imported."""
    has_replies = bool(row.model_calls) and row.statuses.get("failed", 0) < row.made
    return row.usage is None and has_replies and row.origin != "imported"


def conclusion_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Return the conclusions of a comparison with accuracy and cost, a few sentences each."""
    tables = comparison.headline_tables(scorers)
    nothing = [] if tables else ["No answer has a score yet."]
    runs = [row.run for row in comparison.rows]
    # Before a judge has decided who is right, no run can be called as good as another one for less.
    is_judged = bool(scorers) or not unjudged(comparison.benchmark, [table.scorer for table in tables], runs)
    first, *other_verdicts = [*nothing, *verdict_lines(comparison, scorers, names, prices(comparison, tables)), ""]
    return [
        line
        for line in (
            first,
            *_missing_step_sentences(comparison, names),
            *(noise_words(noise, names, len(runs)) for noise in comparison.noise if noise.texts.value),
            *(_trade_off_sentences(tables[:1], names) if is_judged else ()),
            *other_verdicts,
            *_no_model_sentences(comparison, names),
        )
        if line
    ]


def table_remarks(comparison: Comparison, tables: Sequence[ScorerTable], names: Mapping[str, str]) -> list[str]:
    """Return the lines below :func:`summary_table`: the meaning of its marks, and the doubts."""
    return [*_mark_sentences(comparison, tables, names), *doubt_sentences(comparison, tables, names)]


def prices(comparison: Comparison, tables: Sequence[ScorerTable]) -> dict[str, str]:
    """Return each run's price in words, by run id.

    It is in dollars per 100 questions at full price, or in tokens per question if no run has known costs above 0.
    """
    costs = run_costs(comparison, tables)
    bounds = {run: "at least " * bool(cost.unanswered) for run, cost in costs.items()}
    if any(cost.dollars for cost in costs.values()):
        return {
            run: f"{bounds[run]}{dollars(_PRICED_QUESTIONS * cost.dollars)} per {_PRICED_QUESTIONS} questions"
            if cost.dollars is not None
            else "an unknown price"
            for run, cost in costs.items()
        }
    counted = {run: cost.tokens for run, cost in costs.items() if cost.tokens is not None}
    return {run: f"{bounds[run]}{tokens(count)} tokens a question" for run, count in counted.items()}


def figure_columns(table: ScorerTable, heading: str) -> tuple[Column, Column]:
    """Return the columns of a scorer's figures and of their intervals."""
    figures = {line.run: line.overall for line in table.lines}

    def interval(row: RunTotals) -> str:
        """Return the ends of the interval; empty if there is no figure."""
        figure = figures[row.run]
        return "" if figure.value is None else ends(figure.low, figure.high, table.unit, 0)

    return Column(heading, lambda row: in_scale(figures[row.run].value, table.unit)), Column("95 %", interval)


def summary_table(
    comparison: Comparison,
    tables: Sequence[ScorerTable],
    names: Mapping[str, str],
    printed: Mapping[str, PrintedFigure] = MappingProxyType({}),
    *,
    whole_names: bool = False,
) -> TextTable:
    """Return a line for each run, the best first.

    The columns are the figures of the headlines, the difference to the best run or to the baseline, cost, tokens and
    seconds. A value that is the same for every run has no column.

    Args:
        comparison: a comparison of any number of runs.
        tables: tables of the headlines.
        names: run id → name of the run.
        printed: run id → figure that a paper printed for the same run; it has a line below the run's.
        whole_names: True if no name is shortened.
    """
    first, rows = next(iter(tables), None), best_first(comparison, tables)
    short = dict(names) if whole_names else short_names(names, _NAME_WIDTH)
    units = {table.unit for table in tables}
    reference = _reference_run(first) if first and first.pairs else ""
    costs = run_costs(comparison, tables)
    is_priced = any(cost.dollars or (cost.dollars is None and cost.tokens) for cost in costs.values())

    def differing(columns: Iterable[Column]) -> list[Column]:
        """Return the columns whose values differ, and prices unless all are 0; all for a single run.

        Sentences name prices that print alike, and a price that is unknown for all would look forgotten.
        """
        return [
            column
            for column in columns
            if len(rows) == 1
            or len({column.cell(row) for row in rows}) > 1
            or (column.name.startswith("$") and is_priced)
        ]

    columns = [
        words("agent", lambda row: short[row.run], unfolded=True),
        *(figure_columns(first, _heading(first, units)) if first else ()),
        *(figure_columns(table, _heading(table, units))[0] for table in tables[1:]),
        *(_difference_columns(first, reference) if first and reference else ()),
    ]
    if first and len(rows) > 1:
        counted = {line.run: line.overall.n for line in first.lines}
        columns += differing([Column("n", lambda row: counted[row.run])])
    columns += differing(cost_columns(costs))
    # A step that never happened has a sentence of its own in the conclusion.
    rare_verbs = dict.fromkeys(
        step.verb for row in rows for step in row.steps if step.is_rare and not step.never_happened
    )
    columns += [Column(verb, partial(_rare_step, verb=verb)) for verb in rare_verbs]
    title = f"{safe(comparison.benchmark)} · {number_of(comparison.questions, 'question')}"
    counts = {table.scorer: max(line.overall.n for line in table.lines) for table in tables}
    if set(counts.values()) - {comparison.questions}:
        parts = [f"{count:,} {scorer}" for scorer, count in counts.items()]
        title += f" ({', '.join(parts)}; costs of the {max(cost.questions for cost in costs.values()):,})"
    title += f" × {comparison.epochs}" if comparison.epochs > 1 else ""
    table = table_of("summary", rows, columns, title=f"{title} · percent" if units == {"percent"} else title)
    lines = list[tuple[str, ...]]()
    for row, line in zip(rows, table.rows, strict=True):
        lines.append(line)
        if published := printed.get(row.run):
            cells = safe(f"  published ({published.source}: {published.row})"), figure_text(published.value, ".2f")
            lines.append((*cells, *("",) * (len(line) - len(cells))))
    return replace(table, rows=tuple(lines))


def _heading(table: ScorerTable, units: Set[str]) -> str:
    """Return the scorer with its unit, unless the unit of all tables is percent. ↓ means that lower is better."""
    unit = "%" if table.unit == "percent" else table.unit
    heading = table.scorer if units == {"percent"} else f"{table.scorer} ({unit})"
    return f"{heading} ↓" if table.direction == "lower" else heading


def _difference_columns(table: ScorerTable, reference: str) -> tuple[Column, Column]:
    """Return the columns of the difference to the reference run, with ▲ or ▼ if it is significant, and of its
    interval."""
    better_runs = {frozenset((entry.better, entry.worse)): entry.better for entry in conclusions(table)}
    differences = dict[str, tuple[float | None, ...]]()
    for pair in table.pairs:
        value, low, high = pair.tests.difference, pair.tests.low, pair.tests.high
        if pair.first == reference:
            differences[pair.second] = value, low, high
        elif pair.second == reference:
            differences[pair.first] = tuple(None if end is None else -end for end in (value, high, low))
    unknown = (None,) * 3

    def difference(row: RunTotals) -> str:
        value, *_ = differences.get(row.run, unknown)
        if value is None:
            return ""
        better = better_runs.get(frozenset((row.run, reference)))
        mark = "" if better is None else "▲" if (better == row.run) != (table.direction == "lower") else "▼"
        return mark + difference_text(value, table.unit, 1)

    def interval(row: RunTotals) -> str:
        value, low, high = differences.get(row.run, unknown)
        if value is None:
            return ""
        whole = ends(low, high, table.unit, 0, signed=True)
        # An interval without 0 must not look as if it had it.
        return ends(low, high, table.unit, 1, signed=True) if "0" in whole.replace("+", "").split(" to ") else whole

    return Column("diff.", difference), Column("95 % ", interval)


def _reference_run(table: ScorerTable) -> str:
    """Return the run that the others are compared with: the baseline if every pair has it, else the best run.

    Empty if no run has a figure.
    """
    common = set.intersection(*({pair.first, pair.second} for pair in table.pairs))
    if len(common) == 1:
        return common.pop()
    scorer_finding = finding(table)
    return scorer_finding.best.run if scorer_finding else ""


def run_costs(comparison: Comparison, tables: Sequence[ScorerTable]) -> dict[str, QuestionCost]:
    """Return the cost of a question of each run by its id, over the questions of the first headline.

    If no answer has a score yet, it is the mean cost of the attempts that were made.
    """
    if tables:
        return {line.run: line.cost for line in tables[0].lines}
    return {
        row.run: QuestionCost(
            dollars=row.cost_uncached / row.made if row.made and row.cost_uncached is not None else None,
            tokens=row.usage.total / row.made if row.made and row.usage else None,
            seconds=row.seconds,
            unanswered=row.unanswered,
        )
        for row in comparison.rows
    }


def cost_columns(costs: Mapping[str, QuestionCost]) -> tuple[Column, ...]:
    """Return the columns of runs on the same questions that are not about scores.

    Args:
        costs: run id → cost of a question, by :func:`run_costs`.
    """
    return (
        *price_columns(lambda row: costs[row.run]),
        Column("time", lambda row: costs[row.run].seconds, duration, spare=9),
        *(column for column in LISTED if column.unit not in ("US dollars", "seconds")),
    )


def price_columns(cost: Callable[[Any], QuestionCost], name: str = "") -> tuple[Column, Column]:
    """Return the columns of dollars per 100 questions and of tokens per question.

    Args:
        cost: function that returns the cost of a question from a row.
        name: run that is named in the headings; if empty, the rows are runs.
    """

    def price(row: Any) -> float | None:
        per_question = cost(row).dollars
        return None if per_question is None else _PRICED_QUESTIONS * per_question

    def unanswered(row: Any) -> int:
        return cost(row).unanswered

    return (
        Column(
            f"$/{_PRICED_QUESTIONS} {name}".rstrip(), price, dollars, spare=1 if name else 0, least_where=unanswered
        ),
        Column(f"tokens {name}".rstrip(), lambda row: cost(row).tokens, tokens, spare=1, least_where=unanswered),
    )


_PRICE_BOUNDS = {(False, False): "", (False, True): "at least ", (True, False): "at most ", (True, True): "about "}
"""Words for the difference or share of two costs, by whether each of the two is a lower bound."""


def _trade_off_sentences(tables: Sequence[ScorerTable], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the cost of the best run compared with a cheaper one.

    The cheaper run is one that is not significantly different, else the next run on the frontier.
    """
    for table in tables:
        frontier, scorer_finding = table.frontier, finding(table)
        if frontier is None or scorer_finding is None or scorer_finding.kind == "untested" or scorer_finding.equal:
            continue
        costs, least = {point.run: point.cost.value or 0.0 for point in frontier.points}, frontier.lower_bounds
        scores = {line.run: line.overall.value or 0.0 for line in table.lines}
        best = costs.get(scorer_finding.best.run, 0.0)
        reversible = scorer_finding.reversible  # their differences have a ▲ or ▼ in the table
        close_runs = [run for run in scorer_finding.not_separated if run not in reversible]
        if cheaper := [run for run in close_runs if costs.get(run, best) < best]:
            run = max(
                cheaper, key=lambda candidate: scores[candidate] * (1 if scorer_finding.direction == "higher" else -1)
            )
            kind = {"tokens": "tokens", "seconds": "time", "model_calls": "calls"}.get(frontier.measure, "price")
            share = f"{percent(costs[run] / best, 0)} % of the {kind}"
            score = in_scale(scores[run], scorer_finding.unit)
            is_named = scorer_finding.kind == "ahead of some" and len(scorer_finding.not_separated) <= MAX_NOT_SEPARATED
            verdict = "needs" if is_named or scorer_finding.kind == "none" else "is not significantly different, for"
            bound = _PRICE_BOUNDS[scorer_finding.best.run in least, run in least]
            yield f"{names[run]} ({score}) {verdict} {bound}{share}."
            return
        for tradeoff in frontier.tradeoffs if described(table.scorer).accuracy else ():
            if (
                tradeoff.dearer == scorer_finding.best.run
                and tradeoff.cheaper not in reversible
                and tradeoff.price.value is not None
            ):
                price = (
                    f"{float(f'{tradeoff.price.value:.2g}'):,.0f} tokens"
                    if frontier.measure == "tokens"
                    else amount(tradeoff.price.value, frontier.measure)
                )
                bound = _PRICE_BOUNDS[tradeoff.cheaper in least, tradeoff.dearer in least]
                yield f"Compared with {names[tradeoff.cheaper]}, each additional right answer costs {bound}{price}."


def _rare_step(row: RunTotals, verb: str) -> str:
    """Return in how many of a run's attempts a step of its strategy happened; empty if in half of them or more."""
    rare = (step for step in row.steps if step.verb == verb and step.is_rare)
    return next((f"{step.attempts:,} of {step.of:,}" for step in rare), "")


def _missing_step_sentences(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a statement on the runs whose strategy did not happen, for each step that is missing."""
    names_by_step = dict[StrategyStep, list[str]]()
    for row in comparison.rows:
        for step in row.steps:
            if step.never_happened:
                names_by_step.setdefault(step, []).append(names[row.run])
    for step, run_names in names_by_step.items():
        read_as = f": read {'it' if len(run_names) == 1 else 'each'} as {step.equal_agent}" if step.equal_agent else ""
        yield f"{joined_words(run_names)} {step.verb} in 0 of {step.of:,} attempts{read_as}."


def _no_model_sentences(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a statement for each kind of run that used no language model, or one near chance."""
    substitutes = (("extractive", "a built-in word-matching baseline"), ("stand-in", "a stand-in server"))
    for kind, substitute in substitutes:
        if run_names := [names[row.run] for row in comparison.rows if row.no_model == kind]:
            is_all = len(run_names) == len(comparison.rows)
            subject = "These figures come" if is_all else f"The figures of {joined_words(run_names)} come"
            yield f"{subject} from {substitute}, not a language model."
    if any(model.partition("[")[0] == SMOLLM2 for row in comparison.rows for model in row.models.values()):
        yield SMOLLM2_CAVEAT


def _mark_sentences(comparison: Comparison, tables: Sequence[ScorerTable], names: Mapping[str, str]) -> Iterator[str]:
    """Yield what differences refer to, which test decides that one is significant, and why costs are lower bounds."""
    for table in tables[:1]:
        if not table.pairs or not (reference := _reference_run(table)):
            continue
        significant = conclusions(table)
        test_names = {"exact": "", "always-valid": ", always-valid test", "interval": ", by its interval"}
        test = f"5 %{test_names[significant[0].test]}" if significant else "5 %"
        test += f", Holm, {len(table.pairs):,} pairs" if len(table.pairs) > 1 else ""
        decides = "no test fits these scores" if untested(table) else f"none is significant ({test})"
        decides = f"▲▼: significant at {test}" if significant else decides
        alone = {frozenset((pair.first, pair.second)) for pair in table.pairs if pair.tests.leaves_out_0}
        is_corrected = not alone <= {frozenset((conclusion.better, conclusion.worse)) for conclusion in significant}
        yield f"diff.: to {names[reference]}{', uncorrected intervals' if is_corrected else ''}; {decides}"
    if count := sum(row.unanswered for row in comparison.rows):
        yield f"≥, ►: at least; {number_of(count, 'request')} without an answer may be billed."


def doubt_sentences(
    comparison: Comparison, tables: Sequence[ScorerTable], names: Mapping[str, str], width: int | None = None
) -> Iterator[str]:
    """Yield what was not answered and not recorded, by run; if that is wider than `width`, least and most of a run."""
    counted, remarks, unanswered = comparison.outcomes(), [], dict[str, int]()
    lines = {line.run: line for line in tables[0].lines} if tables else {}
    for row in comparison.rows:
        outcomes: Mapping[str, int] = counted.get(row.run, {})
        other_outcomes = [name for name in OUTCOMES if name != "answered" and outcomes.get(name)]
        unanswered[row.run] = sum(outcomes[name] for name in other_outcomes)
        parts = [f"{outcomes[name]:,} {name.replace('_', ' ')}" for name in other_outcomes]
        if (line := lines.get(row.run)) and parts and line.overall.is_open:
            parts.append(f"at best {in_scale(line.overall.best, tables[0].unit)}")
        if line and line.overall.missing:
            parts.append(f"{line.overall.missing:,} without a score{' (withheld)' if line.withheld else ''}")
        if row.unrecorded:
            parts.append(f"{number_of(row.unrecorded, 'call')} not recorded")
        if parts:
            remarks.append(f"{names[row.run]} {', '.join(parts)}")
    if remarks:
        is_part = any(line.overall.n < comparison.questions for line in lines.values())
        subject, details = f"Not answered{f', of all {comparison.questions:,}' if is_part else ''}:", "; ".join(remarks)
        ranked = sorted(unanswered, key=unanswered.__getitem__)
        is_wide = width is not None and len(subject + details) > width
        if is_wide and len(ranked) > 1 and any(unanswered.values()):
            details = " to ".join(f"{unanswered[run]:,} ({names[run]})" for run in (ranked[0], ranked[-1]))
        yield f"{subject} {details}."
