"""Cost and time projection of a study, from pilots of all its runs before any of them goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragrounds.api.event_loop import finish
from ragrounds.api.run import hold_runs
from ragrounds.api.run_request import RunArguments
from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply, Usage
from ragrounds.base.settings import Settings
from ragrounds.evals.engine.progress import Projection
from ragrounds.extensions.studies.call import Arguments, CountingListener, StudyCall
from ragrounds.extensions.studies.cells import groups, run_arguments
from ragrounds.extensions.studies.missing_requirements import cell_model
from ragrounds.extensions.studies.study import StudyCell, agent_text


def confirm_projection(cells: Sequence[StudyCell], call: StudyCall) -> None:
    """Run a pilot of every run that costs money, report the projected total, and ask for consent once.

    Consent is asked if the total is above a threshold of the settings. A study with a budget, or whose models cost
    nothing, needs no consent.

    Raises:
        UserError: the total is above a threshold, and the listener does not confirm.
    """
    dollars = call.settings.project_above_dollars if call.budget.limits.cost is None else None
    minutes = call.settings.project_above_minutes if call.budget.limits.seconds is None else None
    if call.how["journal"] == "replay" or (dollars is None and minutes is None):
        return
    projections, unpriced_cells = list[Projection](), 0
    for group in groups(cell for cell in cells if cell.kind != "retrieve" and "imported" not in cell.settings):
        if minutes is None and not _costs_money(group[0], call.settings):
            unpriced_cells += len(group)
        elif (projection := _pilot(group, call)) is not None:
            projections.append(projection)
    costs = [projection.cost for projection in projections if projection.cost is not None]
    seconds = math.fsum(projection.seconds.value for projection in projections)
    cost = math.fsum(projection.value for projection in costs)
    highest_cost = math.fsum(projection.value if projection.high is None else projection.high for projection in costs)
    if projections:
        without = f", without {unpriced_cells:,} cells whose models have no known price" if unpriced_cells else ""
        words = f"${cost:,.2f} (up to ${highest_cost:,.2f}) at full price, and {seconds / 60:,.0f} min"
        call.listener.message(f"All cells together are projected to take {words}{without}.")
    above = []
    if dollars is not None and highest_cost > dollars:
        above.append(f"${cost:,.2f} (up to ${highest_cost:,.2f}), above project_above_dollars = {dollars:g}")
    if minutes is not None and seconds > 60 * minutes:
        above.append(f"{seconds / 60:,.0f} min, above project_above_minutes = {minutes:g}")
    if above and not call.listener.confirm(" and ".join(above)):
        raise UserError(
            f"The rest of this study is projected to take {' and '.join(above)}. Give --yes to continue, or limit it "
            "with --max-cost or --max-time; finished work is saved."
        )


def _costs_money(cell: StudyCell, settings: Settings) -> bool:
    """Return True if the cell's model is known to cost money."""
    try:
        model = cell_model(cell, settings, cell.settings.get("model") or settings.model)
    except UserError:
        return False  # the result of its cells reports this error later
    return model is not None and bool(model.price(Reply(text="", usage=Usage(1000, 1000), busy=1.0)))


def _pilot(group: Sequence[StudyCell], call: StudyCall) -> Projection | None:
    """Return the projection of a group's runs from their first questions.

    ``None``: the runs cannot be begun, which their cells report later, or there is nothing to project.
    """
    listener, settings = CountingListener(call.listener, call.budget), group[0].settings
    try:
        request_options: Arguments = {
            **run_arguments(settings),
            **call.how,
            **call.budget.left(),
            "settings": call.settings,
        }
        agents = list(dict.fromkeys(agent_text(cell.settings) for cell in group))
        request = RunArguments(str(settings["benchmark"]), agents, listener=listener, **request_options)
        with hold_runs(request, pilot_only=True) as replay:
            finish(replay.carry_out())
    except UserError:
        return None
    return listener.projection
