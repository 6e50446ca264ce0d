"""A list of runs, a single run with its figures, and the ledger, as tables of text."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.base.records import OUTCOMES, Read, Run
from ragrounds.base.specs import without_addresses
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.evals.compare.overview import RunOverview
from ragrounds.evals.store.care.garbage import Garbage, RowVolume
from ragrounds.evals.store.ledger import Ledger, LedgerLine
from ragrounds.evals.store.reads import RunDifference
from ragrounds.ui.agent_names import corpora_apart
from ragrounds.ui.call_words import made_words
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.comparison_columns import LISTED
from ragrounds.ui.tables.comparison_words import alone_words, short_models
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import UNKNOWN_COSTS, age, dollars, duration, first_sentence, in_scale, number_of, safe, tokens


def runs_table(runs: Sequence[RunOverview], now: float) -> TextTable:
    """Return a line for each run: its progress, its headline figure, its cost, and its age.

    Args:
        runs: runs in the order of the lines.
        now: seconds since the epoch.
    """
    scorers = {overview.scorer for overview in runs if overview.scorer}
    unit = next((overview.unit for overview in runs if overview.scorer), "percent")
    scored = f"{next(iter(scorers))} {'%' if unit == 'percent' else unit}" if len(scorers) == 1 else "score"
    models, benchmarks = ({overview.models for overview in runs}, {overview.run.benchmark for overview in runs})
    searched = _searched_corpora(runs)

    def score(overview: RunOverview) -> str:
        """Return the headline figure, with its scorer if there are several."""
        so_far = " so far" if overview.so_far and overview.score is not None else ""
        scorer = f" {safe(overview.scorer)}" if len(scorers) > 1 and overview.scorer else ""
        return f"{in_scale(overview.score, overview.unit)}{so_far}{scorer}"

    return table_of(
        "runs",
        runs,
        (
            words("run", "run.id", unfolded=True),
            words("agent", lambda overview: overview.name or without_addresses(overview.run.agent), spare=7),
            words("corpus", lambda overview: searched.get(overview.run.id, "")) if searched else None,
            words("benchmark", "run.benchmark", least=9, spare=2 if len(benchmarks) > 1 else 4),
            words("model", lambda overview: ", ".join(overview.models), spare=1 if len(models) > 1 else 6),
            Column(safe(scored), score),
            Column("done", _progress_text),
            Column("failed", spare=0 if any(overview.failed for overview in runs) else 5),
            *LISTED,
            Column("age", lambda overview: age(max(0.0, now - overview.run.created))),
        ),
    )


def _searched_corpora(runs: Sequence[RunOverview]) -> dict[str, str]:
    """Return the corpora by run id, for runs that differ in nothing else."""
    same_except_corpus: dict[tuple[object, ...], list[Run]] = {}
    for overview in runs:
        same_except_corpus.setdefault(
            (overview.name or without_addresses(overview.run.agent), overview.run.benchmark, overview.models), []
        ).append(overview.run)
    return {
        run.id: safe(corpora)
        for members in same_except_corpus.values()
        for run, corpora in zip(
            members, corpora_apart([str(run.identity.get("corpus") or "") for run in members]), strict=True
        )
        if corpora
    }


def _progress_text(overview: RunOverview) -> str:
    planned = overview.run.count * overview.run.epochs
    return f"{planned:,}" if overview.made == planned else f"{overview.made:,}/{planned:,}"


def print_run(
    run: Run,
    at_work: str,
    comparison: Comparison | None,
    costs: Ledger,
    reads: Sequence[Read],
    console: Console,
    *,
    full: bool,
) -> None:
    """Print a run's figures; with `full`, also its outcomes, its identity, what it has read, and its ledger.

    `at_work` names the process that is running it, if one is.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    scores = [
        (
            f"score ({table.scorer})",
            alone_words(table.lines[0], table.unit)
            + "".join(
                f"; {scorer_table.scorer} {in_scale(scorer_table.lines[0].overall.value, scorer_table.unit)}"
                for scorer_table in other_tables
            ),
        )
        for table, other_tables in (comparison.shown_tables() if comparison else ())
        if table.lines[0].overall.value is not None
    ]
    rows = [*scores, *_run_facts(run, at_work)]
    if comparison is not None:
        rows += _figure_facts(comparison.rows[0])
        rows += [
            ("answered by", ", ".join(f"{name} in {number_of(count, 'call')}" for name, count in names.items()))
            for names in comparison.rows[0].answered_by.values()
        ]
        rows += [("note", note) for note in (comparison.notes if full else map(first_sentence, comparison.notes[:1]))]
    if full:
        rows += _identity_facts(run, comparison, reads)
    else:
        rows.append(("more", "--full: notes, outcomes, costs by node, fingerprint"))
    for name, value in rows:
        table.add_row(Text(safe(name)), Text(safe(value, 2000)))
    console.print(table)
    if costs.lines and full:
        print_table(ledger_table(costs, full=True), console)


def differences_table(differences: Sequence[RunDifference], first: str, second: str) -> TextTable:
    """Return the differences between two runs, a line each."""
    return table_of(
        "differences",
        differences,
        (
            words("what", "kind", unfolded=True),
            words("name"),
            words(first, lambda difference: safe(difference.first, 300) or "–"),
            words(second, lambda difference: safe(difference.second, 300) or "–"),
        ),
    )


def _run_facts(run: Run, at_work: str) -> list[tuple[str, str]]:
    command = shlex.join(["ragrounds", "run", *run.asked.options]) if run.asked else "not known"
    return [
        ("run", run.id),
        ("agent", run.agent),
        ("benchmark", f"{run.benchmark}, {number_of(run.count, 'question')} × {run.epochs}"),
        (
            "created",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created))
            + (", imported" if run.origin == "imported" else ""),
        ),
        *([("asked for by", command)] if run.origin == "replayed" else []),
        *([("worked at by", at_work)] if at_work else []),
    ]


def _identity_facts(run: Run, comparison: Comparison | None, reads: Sequence[Read]) -> Iterator[tuple[str, str]]:
    yield "fingerprint", run.fingerprint
    if run.version:
        yield "begun by", f"ragrounds {run.version}"
    for scorer_table in comparison.tables if comparison else ():
        counts = scorer_table.lines[0].outcomes
        outcomes = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if counts.get(name))
        yield f"outcomes ({scorer_table.scorer})", outcomes
    for server, facts in run.servers.items():
        yield "server reported", f"{server}: {_plain_text(facts)}"
    for name, value in run.identity.items():
        yield f"identity: {name}", _plain_text(value)
    for read in reads:
        yield f"read: {read.kind}", " ".join(filter(None, (read.name, read.value)))


def _figure_facts(row: RunTotals) -> list[tuple[str, str]]:
    usage = f"{tokens(row.usage.input)} in, {tokens(row.usage.output)} out" if row.usage else "unknown"
    return [
        *([("name", row.name)] if row.name else []),
        ("attempts", ", ".join(f"{count:,} {status}" for status, count in row.statuses.items() if count)),
        (
            "calls",
            made_words(row)
            + (f", {number_of(row.unanswered, 'request')} without an answer" if row.unanswered else "")
            + (f", {row.unrecorded:,} of what was asked not recorded" if row.unrecorded else ""),
        ),
        ("tokens", usage),
        *((column.heading, column.cell(row)) for column in LISTED if column.least_where),
        *([("judging", f"{dollars(row.cost_judging)} paid in addition")] if row.judging_calls else []),
        ("time a question", duration(row.seconds)),
    ]


def _plain_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain_text(item)}" for name, item in value.items()) or "-"
    return "-" if value is None else str(value)


def ledger_table(ledger: Ledger, *, full: bool = False) -> TextTable:
    """Return one line for each part, the most expensive first, and their sum.

    With `full`, models have their parameters, and no column is left out on a narrow terminal.
    """
    short_specs = {} if full else short_models(line.model for line in ledger.lines)
    lines = [*ledger.lines, ledger.total] if len(ledger.lines) != 1 else list(ledger.lines)

    def name(key: str) -> Column:
        """Return the column of a key that the ledger is split by; the sum is called ``all`` in the first."""

        def cell(line: LedgerLine) -> str:
            """Return the name of a line."""
            last = line is ledger.total and len(lines) > 1
            if last and key == ledger.by[0]:
                return "all"
            name = str(getattr(line, key))
            return short_specs.get(name, name) if key == "model" else name

        return words(key, cell, unfolded=key == "run")

    optional = {"reused", "failed", "cached", "reasoning"}  # shown if any line has a value
    columns = [
        replace(column, spare=0) if full else column
        for column in _LEDGER_COLUMNS
        if column.name not in optional or any(column.value_in(line) for line in lines)
    ]
    by = f"costs by {', '.join(ledger.by)}" if ledger.by else "costs"
    paid, full_price = _PAID.cell(ledger.total), _FULL_PRICE.cell(ledger.total)
    hint = UNKNOWN_COSTS * bool(ledger.total.unpriced)
    is_known = not hint or {paid, full_price} != {dollars(None)}
    return table_of(
        "ledger",
        lines,
        (*map(name, ledger.by), *columns),
        title=f"{by}: paid {paid}, full price (no cache) {full_price}, judging included"
        if is_known
        else f"{by} are {hint}",
        about=hint if is_known else "",
    )


def _full_price_text(line: LedgerLine) -> str:
    if line.unpriced and line.known:
        return f"≥ {dollars(line.known)}"
    mark = "≥ " if line.unanswered and line.cost_uncached is not None else ""
    return f"{mark}{dollars(line.cost_uncached)}"


_PAID = Column("paid", "cost_paid", dollars, least_where="unanswered")
_FULL_PRICE = Column("full price", _full_price_text, spare=1)
_LEDGER_COLUMNS = (
    Column("model calls", "model_calls"),
    Column("reused", spare=4),
    Column("failed", spare=2),
    Column("no answer", "unanswered", where="unanswered", spare=3),
    Column("searches", where="searches", spare=5),
    Column("in", "usage.input", tokens),
    Column("cached", "usage.cached", tokens, spare=6),
    Column("out", "usage.output", tokens),
    Column("reasoning", "usage.reasoning", tokens, spare=7),
    _PAID,
    _FULL_PRICE,
)


def garbage_lines(garbage: Garbage) -> Iterator[str]:
    """Yield what nothing refers to, and what was left."""
    volumes = ((garbage.calls, "recorded calls"), (garbage.texts, "texts"), (garbage.questions, "questions"))
    unreferenced = [_volume(volume, noun) for volume, noun in volumes if volume.count]
    yield f"Nothing refers to {', '.join(unreferenced)}." if unreferenced else "Nothing to remove."
    if garbage.recent.count:
        yield f"Left, as too young: {_volume(garbage.recent, 'recorded calls')} (--older-than DURATION)."
    if garbage.outside.count:
        yield f"Left, as no run made them: {_volume(garbage.outside, 'recorded calls')} (--outside removes them too)."


def _volume(volume: RowVolume, noun: str) -> str:
    return f"{volume.count:,} {noun} ({volume.bytes:,} bytes)"
