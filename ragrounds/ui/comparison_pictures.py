"""Pictures of a comparison: what terminal, report, files and notebooks draw of it. Each says its scorer, and takes its
figures from the tables: nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, get_args

from ragrounds.errors import UserError
from ragrounds.evals.analyses.pictures import Forest, ForestRow, Picture, Points, StackPart, StackRow, Stacks
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.figures import Figure, RunPair
from ragrounds.evals.compare.findings import by_interval, conclusions, untested
from ragrounds.evals.scorers import figure_word
from ragrounds.records import OUTCOMES, AnswerStatus, Status
from ragrounds.ui.comparison_tables import agent_names, numbered
from ragrounds.ui.frontier import frontier_picture, titled_by

_MOST = 40
"""Rows of a forest; of more those that come first, and a note that says so."""
_NAME = 90
"""Characters of a run's name."""
Names = Mapping[str, str] | None
"""Run id → what it is called."""


def shown_table(comparison: Comparison, scorer: str = "") -> ScorerTable:
    """The table of a scorer; empty: the first that is shown.

    Raises:
        UserError: nothing is scored, or not by this scorer.
    """
    shown = comparison.shown([scorer] if scorer else [])
    if not shown:
        by = f" by {scorer}" if scorer else ""
        raise UserError(f"These runs have no scores{by}: there is nothing to draw. `ragrounds score` scores them.")
    return shown[0][0]


def accuracy_forest(comparison: Comparison, scorer: str = "", names: Names = None) -> Forest:
    """Every run's figure with its interval, in the order of the tables.

    Args:
        comparison: of any number of runs.
        scorer: whose scores; empty: the first that is shown.
        names: run id → what it is called; by default as tables call it.

    Raises:
        UserError: these runs have no scores by it.
    """
    table, names = shown_table(comparison, scorer), names or agent_names(comparison, _NAME)
    rows = [_row(names[line.run], line.overall) for line in table.lines]
    return _forest(_title(table), table, rows)


def dataset_panels(comparison: Comparison, scorer: str = "", names: Names = None) -> Forest | None:
    """The same in a panel for each dataset; ``None``: there is one dataset. Arguments as of :func:`accuracy_forest`."""
    table, names = shown_table(comparison, scorer), names or agent_names(comparison, _NAME)
    datasets = list(dict.fromkeys(name for line in table.lines for name in line.datasets))
    if len(datasets) < 2:
        return None
    rows = [
        _row(names[line.run], line.datasets[name], group=name.rpartition("/")[2])
        for name in datasets
        for line in table.lines
        if name in line.datasets
    ]
    return _forest(f"{_title(table)}, by dataset", table, rows)


def difference_forest(comparison: Comparison, scorer: str = "", names: Names = None) -> Forest | None:
    """Every pair's difference with its interval, in a panel for each run that others are set against. Full marks are
    those that the corrected tests of the table carry; ``None``: no pair has a difference.

    Arguments as of :func:`accuracy_forest`.
    """
    table, names = shown_table(comparison, scorer), names or agent_names(comparison, _NAME)
    pairs = [pair for pair in table.pairs if pair.tests.difference is not None]
    if not pairs:
        return None
    carried = {frozenset((one.better, one.worse)) for one in conclusions(table)}
    chosen = _first_pairs(pairs, carried)
    rows = [
        ForestRow(
            name=names[pair.second],
            value=pair.tests.difference,
            low=pair.tests.low,
            high=pair.tests.high,
            group=f"minus {names[pair.first]}",
            note=f"n = {pair.tests.n:,}",
            filled=frozenset((pair.first, pair.second)) in carried,
        )
        for pair in chosen
    ]
    filled, hollow = _legend(table)
    unit = "percentage points" if table.unit == "percent" else table.unit
    better = "right of 0: the run named scores higher" + (", which is worse" if table.direction == "lower" else "")
    return Forest(
        title=f"Paired differences: {_title(table)[0].lower()}{_title(table)[1:]}",
        x=f"difference in {unit} ({better})",
        rows=tuple(rows),
        unit=table.unit,
        signed=True,
        reference=0.0,
        filled=filled,
        hollow=hollow,
        note=_left_out(len(chosen), len(pairs), "pairs, those that the tests tell apart and the widest apart first"),
    )


def _legend(table: ScorerTable) -> tuple[str, str]:
    """What full and hollow marks of differences mean: what decides that two runs differ."""
    if untested(table):
        return "", "no test: the interval alone does not say that they differ"
    if by_interval(table):
        if table.pairs[0].tests.low is None:
            return "", "no test fits these scores, and for an interval there are too few questions"
        return "the interval leaves 0 out, and alone decides: no test fits these scores", "it does not"
    corrected = "corrected test" if len(table.pairs) > 1 else "test"
    return f"the {corrected} tells the two apart", f"the {corrected} does not"


def status_stacks(comparison: Comparison, names: Names = None) -> Stacks:
    """How the attempts of each run ended."""
    used = [name for name in get_args(Status) if any(row.statuses.get(name) for row in comparison.rows)]
    names = names or agent_names(comparison, _NAME)
    rows = [
        StackRow(name=names[row.run], counts=tuple(row.statuses.get(name, 0) for name in used))
        for row in comparison.rows
    ]
    return Stacks(title="How attempts ended", x="percent of attempts", parts=tuple(map(_part, used)), rows=tuple(rows))


def answer_stacks(comparison: Comparison, scorer: str = "", names: Names = None) -> Stacks | None:
    """What a scorer made of the answers of completed attempts; ``None``: there is none. Arguments as of
    :func:`accuracy_forest`."""
    table, names = shown_table(comparison, scorer), names or agent_names(comparison, _NAME)
    used = [name for name in get_args(AnswerStatus) if any(line.outcomes.get(name) for line in table.lines)]
    if not used:
        return None
    rows = [
        StackRow(name=names[line.run], counts=tuple(line.outcomes.get(name, 0) for name in used))
        for line in table.lines
    ]
    return Stacks(
        title=f"How completed answers were read by {table.scorer}",
        x="percent of completed attempts",
        parts=tuple(map(_part, used)),
        rows=tuple(rows),
    )


def comparison_frontier(comparison: Comparison, scorer: str = "", names: Names = None) -> Points | None:
    """Score and cost of every run; ``None``: no run has a known cost, or more of the score is not what one pays for.
    Arguments as of :func:`accuracy_forest`."""
    table = shown_table(comparison, scorer)
    if table.frontier is None:
        return None
    names = names or agent_names(comparison, _NAME)
    return frontier_picture(table.frontier, table.scorer, numbered(comparison), names)


class ComparisonPicture(NamedTuple):
    """One of the pictures that every comparison is asked for."""

    draw: Callable[[Comparison, str], Picture | None]
    """From a comparison and a scorer, empty for the first that is shown; ``None``: it has no such picture."""
    lacking: str = ""
    """Why it may have none."""


COMPARISON_PICTURES: Mapping[str, ComparisonPicture] = {
    "scores": ComparisonPicture(accuracy_forest),
    "differences": ComparisonPicture(difference_forest, "no two runs have scores for the same question"),
    "frontier": ComparisonPicture(
        comparison_frontier,
        "no run has a known cost above 0. Give prices in prices.toml, or choose what to count with --cost tokens, "
        "calls or seconds",
    ),
    "datasets": ComparisonPicture(dataset_panels, "these questions are of one dataset"),
    "statuses": ComparisonPicture(lambda comparison, scorer: status_stacks(comparison)),
    "answers": ComparisonPicture(answer_stacks, "no attempt was completed"),
}
"""The pictures of a comparison by name, the natural one first."""


def _title(table: ScorerTable) -> str:
    return titled_by(table.scorer)


def _row(name: str, figure: Figure, group: str = "") -> ForestRow:
    open_ = figure.best if figure.best is not None and figure.value is not None else None
    missing = f", {figure.missing:,} missing" if figure.missing else ""
    return ForestRow(
        name=name,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        best=open_ if open_ is not None and open_ > (figure.value or 0.0) + 1e-9 else None,
        note=f"n = {figure.n:,}{missing}",
        group=group,
    )


def _forest(title: str, table: ScorerTable, rows: Sequence[ForestRow]) -> Forest:
    unit = "percent right" if figure_word(table.scorer) == "accuracy" else table.unit
    lower = ", lower is better" if table.direction == "lower" else ""
    return Forest(
        title=title,
        x=f"{unit}{lower}",
        rows=tuple(rows[:_MOST]),
        unit=table.unit,
        note=_left_out(min(len(rows), _MOST), len(rows), "rows, in the order of the tables"),
    )


def _first_pairs(pairs: Sequence[RunPair], carried: set[frozenset[str]]) -> list[RunPair]:
    """All pairs, or of many those that are told apart and then those that are the widest apart; pairs against one run
    stand together."""
    chosen = list(pairs)
    if len(pairs) > _MOST:
        chosen.sort(
            key=lambda pair: (
                frozenset((pair.first, pair.second)) not in carried,
                -abs(pair.tests.difference or 0.0),
            )
        )
        kept = {(pair.first, pair.second) for pair in chosen[:_MOST]}
        chosen = [pair for pair in pairs if (pair.first, pair.second) in kept]
    order = {run: place for place, run in enumerate(dict.fromkeys(pair.first for pair in chosen))}
    return sorted(chosen, key=lambda pair: order[pair.first])


def _left_out(shown: int, all_: int, what: str) -> str:
    return f"{shown:,} of {all_:,} {what}." if shown < all_ else ""


def _part(name: str) -> StackPart:
    return StackPart(name=name.replace("_", " "), about=OUTCOMES.get(name, "the system ended by itself"))
