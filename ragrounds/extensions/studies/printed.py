"""Published figures of the shipped studies, found by an exact match of their cells' settings."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cache

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.comparison import RunFigures
from ragrounds.evals.compare.published import PrintedFigure, PrintedTables
from ragrounds.extensions.studies.study import (
    Settings,
    Study,
    StudyCell,
    agent_text,
    model_name,
    open_study,
    shipped_studies,
)


def _find_printed(run: Run, models: Sequence[str], line: RunFigures, scorer: str) -> PrintedFigure | None:
    """Find the published figure of a run in the shipped studies.

    The agent with all its parameters, the model, the judge, the corpora and the datasets must be the same.
    """
    judges = {model_name(judge) for judge in line.judges.judges} if line.judges else set[str]()
    for study, cells in _studies():
        mean_columns = {column.name: column.mean for column in study.columns if column.mean}
        for row in study.rows:
            benchmarks = {
                cell.column: cell.settings["benchmark"]
                for cell in cells.get(row.name, ())
                if _is_same_run(cell.settings, run, models, scorer, judges)
            }
            for column in study.columns if benchmarks else ():
                cell_benchmarks = [benchmarks.get(name) for name in mean_columns.get(column.name, (column.name,))]
                figure = study.published(row.name, column.name)
                if figure is not None and len(cell_benchmarks) == len(line.datasets) == len(
                    {*cell_benchmarks} & {*line.datasets}
                ):
                    return PrintedFigure(study.source or study.title, row.name, figure.value)
    return None


@cache
def _studies() -> list[tuple[Study, dict[str, list[StudyCell]]]]:
    """Return the studies that hold printed figures, each with the cells that are runs, by row."""
    studies = [study for study in map(open_study, shipped_studies()) if any(row.published for row in study.rows)]
    by_row: list[dict[str, list[StudyCell]]] = [{} for _ in studies]
    for study, rows in zip(studies, by_row, strict=True):
        for cell in study.cells():
            if cell.kind == "run":
                rows.setdefault(cell.row, []).append(cell)
    return list(zip(studies, by_row, strict=True))


def _is_same_run(settings: Settings, run: Run, models: Sequence[str], scorer: str, judges: Set[str]) -> bool:
    """Return True if a cell's settings are those of a run. A model is identified by its name, for any server."""
    card, model = card_of(str(settings["benchmark"])), str(settings.get("model", ""))
    model_names = [model_text.partition(":")[2] for model_text in models if model]
    if model_names != [model_name(model)]:
        return False
    if parse(str(settings["agent"])).name != run.agent.partition("[")[0]:
        return False
    if scorer != settings.get("scorer", card.headline[0] if card and card.headline else ""):
        return False
    if run.epochs != settings.get("epochs", 1) or settings.keys() & {"imported", "limit", "where", "labels"}:
        return False
    if judges != ({str(settings["judge"]).partition(":")[2]} if "judge" in settings else set()):
        return False
    try:
        spec = parse(agent_text(settings))
        profile = {"profile": str(settings["profile"])} if "profile" in settings else {}
        agent = open_agent(spec.having(**profile), model=model)
    except UserError:  # an agent that cannot be opened here matches no run
        return False
    searched_corpora = {corpus.partition("@")[0] for corpus in str(run.identity.get("corpus") or "").split("+")}
    return agent.spec == run.agent and (
        not agent.card.searches or searched_corpora == {*str(settings.get("corpus", "")).split("+")}
    )


STUDIES = PrintedTables("studies", _find_printed)
