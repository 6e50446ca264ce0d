"""What a study will take: the pilots of all its runs together, before any of them goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragrounds.api.event_loop import finish
from ragrounds.api.run import begun_runs
from ragrounds.api.run_request import RunArguments
from ragrounds.api.study_cells import (
    Arguments,
    CountingListener,
    StudyBudget,
    StudyListener,
    agent_text,
    arguments,
    groups,
)
from ragrounds.api.workspace import user_prices
from ragrounds.errors import UserError
from ragrounds.evals.engine.progress import ProjectedSum, Projection
from ragrounds.evals.studies.study import StudyCell
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import open_model
from ragrounds.records import Reply, Usage
from ragrounds.settings import Settings


def confirm_projection(
    cells: Sequence[StudyCell],
    settings: Settings,
    budget: StudyBudget,
    listener: StudyListener,
    how: Arguments,
) -> None:
    """Ask the pilot of every run that costs money, tell what all of them will take together, and ask for consent once
    where that is above a threshold of the settings. A study with a budget, or whose models cost nothing, has none.

    Raises:
        UserError: it is above one, and the listener does not confirm.
    """
    dollars = settings.project_above_dollars if budget.cost is None else None
    minutes = settings.project_above_minutes if budget.seconds is None else None
    if how["journal"] == "replay" or (dollars is None and minutes is None):
        return
    found, left_out = [], 0
    for group in groups(cell for cell in cells if cell.kind != "retrieve" and "imported" not in cell.settings):
        if minutes is None and not _costs_money(group[0], settings):
            left_out += len(group)
            continue
        projection = _pilot(group, settings, budget, listener, how)
        found += [projection] if projection is not None else []
    costs = [one.cost for one in found if one.cost is not None]
    seconds = math.fsum(one.seconds.value for one in found)
    cost, most = math.fsum(one.value for one in costs), math.fsum(_high(one) for one in costs)
    if found:
        without = f"; {left_out:,} cells whose models have no known price are not in it" if left_out else ""
        listener.message(f"All cells together are projected to take {_words(cost, most, seconds)}{without}.")
    above = []
    if dollars is not None and most > dollars:
        above.append(f"${cost:,.2f} (up to ${most:,.2f}), above project_above_dollars = {dollars:g}")
    if minutes is not None and seconds > 60 * minutes:
        above.append(f"{seconds / 60:,.0f} min, above project_above_minutes = {minutes:g}")
    if above and not listener.confirm(" and ".join(above)):
        raise UserError(
            f"The rest of this study is projected to take {' and '.join(above)}. Give --yes to go on, or bound it with "
            "--max-cost or --max-time; what is answered is kept."
        )


def _high(one: ProjectedSum) -> float:
    return one.value if one.high is None else one.high


def _words(cost: float, most: float, seconds: float) -> str:
    return f"${cost:,.2f} (up to ${most:,.2f}) uncached, and {seconds / 60:,.0f} min"


def _costs_money(cell: StudyCell, settings: Settings) -> bool:
    """Whether its model is known to cost money."""
    text = cell.settings.get("model") or settings.model
    if text is None:
        return False
    url = cell.settings.get("base_url") or settings.base_url
    try:
        model = open_model(with_defaults(str(text), {"base_url": str(url)} if url else {}), user_prices(settings))
    except UserError:
        return False  # its cells say so
    return bool(model.price(Reply(text="", usage=Usage(1000, 1000), busy=1.0)))


def _pilot(
    group: Sequence[StudyCell],
    settings: Settings,
    budget: StudyBudget,
    listener: StudyListener,
    how: Arguments,
) -> Projection | None:
    """What the runs of a group will take, from their first questions; ``None``: they cannot be begun, which their cells
    say later, or there is nothing to project."""
    heard = CountingListener(listener, budget)
    try:
        agents = list(dict.fromkeys(agent_text(cell.settings) for cell in group))
        given = {
            **arguments(group[0].settings), **how, **budget.left(), "agents": agents,
            "benchmark": str(group[0].settings["benchmark"]), "settings": settings, "listener": heard,
        }  # fmt: skip
        with begun_runs(RunArguments(**given), pilot_only=True) as replay:
            finish(replay.carry_out())
    except UserError:
        return None
    return heard.projection
