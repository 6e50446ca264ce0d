"""A comparison as sheets of text: what the terminal, Markdown, LaTeX and the report all draw.

What runs are called beside their numbers: their agents; where these are alike, also what tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.compare.comparability import computed, outcome_scorers, shown_scorers
from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable
from ragrounds.evals.compare.figures import Figure, PairedFigure
from ragrounds.records import OUTCOMES
from ragrounds.ui.text import UNKNOWN, dollars, duration, p_value, percent, points, safe, tokens

_ABOUT = {
    "mirage": "as published: an answer that cannot be read counts as A",
    "strict": "the published patterns without that: what cannot be read is wrong",
    "robust": "lenient reading: repaired JSON, option text, full-width letters",
    "facts": "share of the required facts that the answer holds",
    "triplets": "mean F1 of an answer's triplets",
    "rouge-l": "secondary: longest common subsequence of words, F1; wording, not truth",
    "greedy-match": "secondary: words matched by this embedder's vectors, F1; likeness, not truth",
    "trajectory": "attempts that took the expected way",
    "equivalent": "share of answers that the judge finds equivalent to the reference",
    "comprehensiveness": "share of the must-have statements that the answer entails, by the judge",
    "contradiction": "share of the statements that the answer contradicts, by the judge; lower is better",
    "ragas_faithfulness": "ragas: share of the answer's statements that follow from the passages",
    "ragas_answer_relevancy": "ragas: cosine of the question with questions made from the answer",
    "ragas_context_precision": "ragas: average precision of the passages, as useful for the reference",
    "ragas_context_recall": "ragas: share of the reference's statements that the passages hold",
    "ragas_factual_correctness": "ragas: F1 of the answer's and the reference's claims",
}


class Column(Struct, frozen=True):
    """A heading; figures stand to the right, words to the left."""

    name: str
    right: bool = True
    whole: bool = False
    """Words that are not folded on a narrow screen: ids, so that they can be copied."""


class TextTable(Struct, frozen=True, kw_only=True):
    """A table of text. Nothing in it is markup."""

    key: str
    """What it is: ``accuracy``, ``outcomes``, ``pairs``, ``group``, ``frontier``, ``prices``."""
    scorer: str = ""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def numbered(comparison: Comparison) -> dict[str, str]:
    """Run id → its number in the tables, from 1."""
    return {row.run: str(number) for number, row in enumerate(comparison.rows, 1)}


def distinct_tables(comparison: Comparison, scorers: Sequence[str] = ()) -> list[tuple[ScorerTable, list[str]]]:
    """The scorers to show, each with the others that give the very same figures and are not shown again."""
    kept: list[tuple[ScorerTable, list[str]]] = []
    for table in _shown(comparison, scorers):
        for other, alike in kept:
            if _same(table, other):
                alike.append(table.scorer)
                break
        else:
            kept.append((table, []))
    return kept


def sheets(comparison: Comparison, scorers: Sequence[str] = ()) -> list[TextTable]:
    """Accuracy by scorer, outcomes and cost, paired differences, groups."""
    numbers, names = numbered(comparison), agent_names(comparison)
    tables = distinct_tables(comparison, scorers)
    made = [accuracy_table(table, numbers, names, alike) for table, alike in tables]
    made.append(outcome_table(comparison, scorers))
    made += [pair_table(table, numbers) for table, _ in tables if table.pairs]
    return made + [sheet for table, _ in tables for sheet in group_tables(table, numbers)]


def accuracy_table(
    table: ScorerTable, numbers: Mapping[str, str], agents: Mapping[str, str], alike: Sequence[str] = ()
) -> TextTable:
    """Every dataset, the average, its interval, and what the open attempts could still make of it."""
    also = f" ({', '.join(alike)} gives the same figures)" if alike else ""
    datasets = list(table.lines[0].datasets)
    averages = ["average"] if len(datasets) > 1 else []
    open_ = ["at best"] if any(_is_open(line.overall) for line in table.lines) else []
    names = [*(name.rpartition("/")[2] for name in datasets), *averages, "95 %", "n", *open_]
    rows = []
    for line in table.lines:
        whole = line.overall
        cells = [with_error(line.datasets[name]) for name in datasets]
        cells += [with_error(whole)] if averages else []
        cells += [interval(whole), f"{whole.n:,}" + (f" ({whole.missing:,} missing)" if whole.missing else "")]
        rows.append((numbers[line.run], agents[line.run], *cells, *([percent(whole.best)] if open_ else [])))
    return TextTable(
        key="accuracy",
        scorer=table.scorer,
        title=f"{table.scorer}: {_ABOUT.get(table.scorer.partition('[')[0], 'score')}, percent{also}",
        columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in names)),
        rows=tuple(rows),
    )


def outcome_table(comparison: Comparison, scorers: Sequence[str] = ()) -> TextTable:
    """How attempts ended, and what they took."""
    counted = outcomes(comparison, scorers)
    used = [name for name in OUTCOMES if any(counts[name] for counts in counted.values())]
    names = [*(name.replace("_", " ") for name in used), "calls", "in", "out", "cost_paid", "cost_uncached", "s"]
    numbers, agents = numbered(comparison), agent_names(comparison)
    return TextTable(
        key="outcomes",
        title="outcomes and cost (in, out: tokens; paid: really paid; uncached: with an empty journal; "
        "s: seconds a question)",
        columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in names)),
        rows=tuple(
            (
                numbers[row.run],
                agents[row.run],
                *(f"{counted.get(row.run, Counter())[name]:,}" for name in used),
                *_took(row),
            )
            for row in comparison.rows
        ),
    )


def outcomes(comparison: Comparison, scorers: Sequence[str] = ()) -> dict[str, Counter[str]]:
    """Run → outcomes over all its questions: choices by the strict scorer (the published one hides them), other
    questions by their own. Where none is named, answers that no shown scorer scores are counted all the same."""
    tables = _shown(comparison, scorers)
    if not scorers:
        tables += [table for table in comparison.tables if table not in tables]
    once = outcome_scorers({table.scorer: list(table.lines[0].datasets) for table in tables})
    counted: dict[str, Counter[str]] = {}
    for table in tables:
        if table.scorer in once:
            for line in table.lines:
                counted.setdefault(line.run, Counter()).update(line.outcomes)
    return counted


def _shown(comparison: Comparison, scorers: Sequence[str]) -> list[ScorerTable]:
    wanted = scorers or shown_scorers({table.scorer: _scored(table) for table in comparison.tables})
    return [table for table in comparison.tables if table.scorer in wanted]


def _scored(table: ScorerTable) -> list[str]:
    """The datasets in which a table has something to show: by a judge all, otherwise those with a value of any run."""
    return [
        name
        for name in table.lines[0].datasets
        if not computed(table.scorer) or any(line.datasets[name].n for line in table.lines)
    ]


def pair_table(table: ScorerTable, numbers: Mapping[str, str]) -> TextTable:
    """Every pair of runs. Of those that ended by their own results the interval and the p value are always valid."""
    corrected = len(table.pairs) > 1
    binary = any(pair.tests.p_mcnemar is not None for pair in table.pairs)
    watched = any(pair.tests.draws is not None for pair in table.pairs)
    tested = ["only 2nd right", "only 1st right", "McNemar p", *(["Holm p"] if corrected else []), "mde"]
    names = ["difference", "95 %", *(tested if binary else []), *(["always-valid p", "draws"] if watched else [])]
    rows = []
    for pair in table.pairs:
        tests = pair.tests
        cells = [points(tests.difference), spread(tests)]
        if binary:
            cells += [_count(tests.second_only), _count(tests.first_only), p_value(tests.p_mcnemar)]
            cells += [p_value(pair.p_holm)] if corrected else []
            cells.append(percent(tests.mde, 1))
        cells += [p_value(tests.p_always), _count(tests.draws)] if watched else []
        rows.append((f"#{numbers[pair.second]} - #{numbers[pair.first]}", *cells))
    return TextTable(
        key="pairs",
        scorer=table.scorer,
        title=f"paired differences under {table.scorer}, percentage points"
        + (" (with an always-valid p, 95 % is a confidence sequence)" if watched else ""),
        columns=(Column("2nd - 1st", right=False), *(Column(name) for name in names)),
        rows=tuple(rows),
    )


def group_tables(table: ScorerTable, numbers: Mapping[str, str]) -> list[TextTable]:
    """One sheet for each property the questions were grouped by; with two runs also their difference."""
    made = []
    for grouped in table.groups:
        alone = len(table.lines) == 2
        names = ["n", *(f"#{numbers[line.run]}" for line in table.lines)]
        names += [f"#{numbers[table.lines[1].run]} - #{numbers[table.lines[0].run]}", "95 %", "Holm p"] if alone else []
        rows = []
        for group in grouped.groups:
            cells = [with_error(group.figures[line.run]) for line in table.lines]
            if alone:
                pair = group.pairs[0]
                cells += [points(pair.tests.difference), spread(pair.tests), p_value(pair.p_holm)]
            rows.append((safe(group.name), f"{group.questions:,}", *cells))
        made.append(
            TextTable(
                key="group",
                scorer=table.scorer,
                title=f"{table.scorer} by {safe(grouped.by)}, percent",
                columns=(Column(safe(grouped.by), right=False), *(Column(name) for name in names)),
                rows=tuple(rows),
            )
        )
    return made


def with_error(figure: Figure) -> str:
    """A figure as papers print it."""
    error = f" ±{percent(figure.error)}" if figure.error is not None else ""
    return f"{percent(figure.value)}{error}"


def interval(figure: Figure) -> str:
    """From and to, in percent."""
    return f"{percent(figure.low, 1)}-{percent(figure.high, 1)}" if figure.low is not None else UNKNOWN


def spread(tests: PairedFigure) -> str:
    """The interval of a difference, in points."""
    return f"{points(tests.low, 1)} to {points(tests.high, 1)}" if tests.low is not None else UNKNOWN


def _took(row: RunTotals) -> tuple[str, ...]:
    return (
        f"{row.calls:,}",
        tokens(row.usage.input if row.usage else None),
        tokens(row.usage.output if row.usage else None),
        dollars(row.cost_paid),
        dollars(row.cost_uncached),
        duration(row.seconds).removesuffix(" s"),
    )


def _same(one: ScorerTable, other: ScorerTable) -> bool:
    def values(table: ScorerTable) -> list[object]:
        return [(line.run, line.datasets, line.overall) for line in table.lines]

    return values(one) == values(other) and one.pairs == other.pairs


def _is_open(figure: Figure) -> bool:
    return figure.best is not None and figure.value is not None and figure.best > figure.value


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def agent_names(comparison: Comparison, longest: int | None = None) -> dict[str, str]:
    """Run id → its agent's text. Runs of one agent are told apart by their models, as ``direct (openai:NAME)``; where
    that is not enough, by their ids. Safe to show.

    Args:
        comparison: of these runs.
        longest: characters of a name, about; longer ones lose the end of the agent's text, not what tells them apart.
    """
    alike: dict[str, list[RunTotals]] = {}
    for row in comparison.rows:
        alike.setdefault(row.agent, []).append(row)
    return {
        row.run: safe(row.agent, longest and max(20, longest - len(apart))) + (safe(f" ({apart})") if apart else "")
        for rows in alike.values()
        for row, apart in zip(rows, _apart(rows), strict=True)
    }


def _apart(rows: Sequence[RunTotals]) -> list[str]:
    if len(rows) == 1:
        return [""]
    short, whole = _models(rows, _short), _models(rows, str)
    for found in (short, whole):
        if len(set(found)) == len(rows):
            return found
    return [", ".join(part for part in (model, row.run) if part) for model, row in zip(short, rows, strict=True)]


def _short(model: str) -> str:
    return model.partition("[")[0]


def _models(rows: Sequence[RunTotals], read: Callable[[str], str]) -> list[str]:
    """Of each run the models that not all of them have."""
    roles = list(dict.fromkeys(role for row in rows for role in row.models))
    differing = [role for role in roles if len({read(row.models.get(role, "-")) for row in rows}) > 1]
    return [
        ", ".join(("" if role == "model" else f"{role}: ") + read(row.models.get(role, "-")) for role in differing)
        for row in rows
    ]
