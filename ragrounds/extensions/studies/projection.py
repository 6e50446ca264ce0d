"""What a study will take: the pilots of all its runs together, before any of them goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragrounds.api.event_loop import finish
from ragrounds.api.run import begun_runs
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
    """Ask the pilot of every run that costs money, tell what all of them will take together, and ask for consent once
    where that is above a threshold of the settings. A study with a budget, or whose models cost nothing, has none.

    Raises:
        UserError: it is above one, and the listener does not confirm.
    """
    dollars = call.settings.project_above_dollars if call.budget.cost is None else None
    minutes = call.settings.project_above_minutes if call.budget.seconds is None else None
    if call.how["journal"] == "replay" or (dollars is None and minutes is None):
        return
    found, left_out = list[Projection](), 0
    for group in groups(cell for cell in cells if cell.kind != "retrieve" and "imported" not in cell.settings):
        if minutes is None and not _costs_money(group[0], call.settings):
            left_out += len(group)
        elif (projection := _pilot(group, call)) is not None:
            found.append(projection)
    costs = [one.cost for one in found if one.cost is not None]
    seconds, cost = math.fsum(one.seconds.value for one in found), math.fsum(one.value for one in costs)
    most = math.fsum(one.value if one.high is None else one.high for one in costs)
    if found:
        without = f", without {left_out:,} cells whose models have no known price" if left_out else ""
        words = f"${cost:,.2f} (up to ${most:,.2f}) at full price, and {seconds / 60:,.0f} min"
        call.listener.message(f"All cells together are projected to take {words}{without}.")
    above = []
    if dollars is not None and most > dollars:
        above.append(f"${cost:,.2f} (up to ${most:,.2f}), above project_above_dollars = {dollars:g}")
    if minutes is not None and seconds > 60 * minutes:
        above.append(f"{seconds / 60:,.0f} min, above project_above_minutes = {minutes:g}")
    if above and not call.listener.confirm(" and ".join(above)):
        raise UserError(
            f"The rest of this study is projected to take {' and '.join(above)}. Give --yes to continue, or limit it "
            "with --max-cost or --max-time; finished work is saved."
        )


def _costs_money(cell: StudyCell, settings: Settings) -> bool:
    """Whether its model is known to cost money."""
    try:
        model = cell_model(cell, settings, cell.settings.get("model") or settings.model)
    except UserError:
        return False  # its cells say so
    return model is not None and bool(model.price(Reply(text="", usage=Usage(1000, 1000), busy=1.0)))


def _pilot(group: Sequence[StudyCell], call: StudyCall) -> Projection | None:
    """What the runs of a group will take, from their first questions; ``None``: they cannot be begun, which their cells
    say later, or there is nothing to project."""
    heard, settings = CountingListener(call.listener, call.budget), group[0].settings
    try:
        given: Arguments = {**run_arguments(settings), **call.how, **call.budget.left(), "settings": call.settings}
        agents = list(dict.fromkeys(agent_text(cell.settings) for cell in group))
        asked = RunArguments(str(settings["benchmark"]), agents, listener=heard, **given)
        with begun_runs(asked, pilot_only=True) as replay:
            finish(replay.carry_out())
    except UserError:
        return None
    return heard.projection
