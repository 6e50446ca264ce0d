"""The figures that the shipped studies hold, found by the settings of their cells: nothing is guessed."""

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
from ragrounds.extensions.studies.study import Settings, Study, StudyCell, agent_text, open_study, shipped_studies


def _find(run: Run, models: Sequence[str], line: RunFigures, scorer: str) -> PrintedFigure | None:
    """What a study's table has for the very agent with all its parameters, the model, the judge, the corpora and the
    datasets."""
    judges = {one.partition("[")[0].partition(":")[2] for one in line.judges.judges} if line.judges else set[str]()
    for study, cells in _studies():
        over = {column.name: column.mean for column in study.columns if column.mean}
        for row in study.rows:
            alike = {
                cell.column: cell.settings["benchmark"]
                for cell in cells.get(row.name, ())
                if _same(cell.settings, run, models, scorer, judges)
            }
            for column in study.columns:
                of = [alike.get(name) for name in over.get(column.name, (column.name,))]
                found = study.published(row.name, column.name)
                if found is not None and len(of) == len(line.datasets) == len({*of} & {*line.datasets}):
                    return PrintedFigure(study.source or study.title, row.name, found.value)
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


def _same(settings: Settings, run: Run, models: Sequence[str], scorer: str, judges: Set[str]) -> bool:
    """Whether a cell's settings are a run's. A model is known by its name, whoever serves it."""
    card, model = card_of(str(settings["benchmark"])), str(settings.get("model", ""))
    named = [one.partition(":")[2] for one in models if model]
    if named != [model.partition("[")[0].partition(":")[2]]:
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
        named_by = {"profile": str(settings["profile"])} if "profile" in settings else {}
        agent = open_agent(spec.having(**named_by), model=model)
    except UserError:  # it cannot be opened here: nothing is the same as it
        return False
    searched = {one.partition("@")[0] for one in str(run.identity.get("corpus") or "").split("+")}
    return agent.spec == run.agent and (
        not agent.card.searches or searched == {*str(settings.get("corpus", "")).split("+")}
    )


STUDIES = PrintedTables("studies", _find)
