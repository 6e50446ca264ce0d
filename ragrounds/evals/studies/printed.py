"""The figures that the shipped studies hold, found by the settings of their cells: nothing is guessed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ragrounds.agents.agent import open_agent
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.published import PrintedFigure, PrintedTables
from ragrounds.evals.studies.study import Settings, Study, agent_text, open_study, shipped_studies
from ragrounds.records import Run
from ragrounds.specs import parse


def _find(run: Run, models: Sequence[str], datasets: frozenset[str], scorer: str) -> PrintedFigure | None:
    """What a study's table has for the very agent with all its parameters, the model, the corpora and the datasets."""
    for study in _studies():
        over = {column.name: column.mean for column in study.columns if column.mean}
        for row in study.rows:
            cells = {cell.column: cell for cell in study.cells() if cell.row == row.name and cell.kind == "run"}
            alike = {
                name: one.settings["benchmark"]
                for name, one in cells.items()
                if _same(one.settings, run, models, scorer)
            }
            for column in study.columns:
                of = [alike.get(name) for name in over.get(column.name, (column.name,))]
                found = study.published(row.name, column.name)
                if found is not None and len(of) == len(datasets) == len({*of} & datasets):
                    return PrintedFigure(study.source or study.title, row.name, found.value)
    return None


@cache
def _studies() -> list[Study]:
    return [study for study in map(open_study, shipped_studies()) if any(row.published for row in study.rows)]


def _same(settings: Settings, run: Run, models: Sequence[str], scorer: str) -> bool:
    """Whether a cell's settings are a run's. A model is known by its name, whoever serves it."""
    card, model = card_of(str(settings["benchmark"])), str(settings.get("model", ""))
    named = [one.partition(":")[2] for one in models]
    if parse(str(settings["agent"])).name != parse(run.agent).name or named != [
        model.partition("[")[0].partition(":")[2]
    ]:
        return False
    if scorer != settings.get("scorer", card.headline[0] if card and card.headline else ""):
        return False
    if run.epochs != settings.get("epochs", 1) or "imported" in settings or "limit" in settings:
        return False
    spec = parse(agent_text(settings))
    if "profile" in settings:
        spec = spec.having(profile=str(settings["profile"]))
    agent = open_agent(spec, model=model)
    searched = {one.partition("@")[0] for one in str(run.identity.get("corpus") or "").split("+")}
    return agent.spec == run.agent and (
        not agent.card.searches or searched == {*str(settings.get("corpus", "")).split("+")}
    )


STUDIES = PrintedTables("studies", _find)
