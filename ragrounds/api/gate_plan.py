"""How many questions a release gate needs, planned from stored runs."""

from __future__ import annotations

from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.results import Result
from ragrounds.api.workspace import chosen_settings, opened_runs
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.evals.claims.gate import GateStop, read_policy
from ragrounds.evals.claims.gate_plan import DesignSize, judged, size, spread_of
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.tables.text_tables import print_table

_FEWEST = 20
"""Questions that a plan is made from."""


class GatePlan(Result, frozen=True, kw_only=True):
    """What the critical rules of a policy need, by design."""

    power: float
    designs: tuple[DesignSize, ...]

    def draw(self, console: Console) -> None:
        """Print the table."""
        columns = (
            words("rule", lambda row: row.rule),
            *(Column(name, attrgetter(name)) for name in DesignSize.__struct_fields__[1:]),
        )
        title = f"Questions for {100 * self.power:g} % power, with a look after every one; fixed: looked at once"
        print_table(table_of("plan", self.designs, columns, title=title), console)


class PlanArguments(Struct, frozen=True):
    """What the plan of a policy is for."""

    policy: Annotated[str | Path, Arg("The policy, a TOML file.", option="-")]
    effect: Annotated[
        float | None, Arg("With --plan: how far beyond its limit the truth is, 0.03. [default: as in the pilot]")
    ] = None
    power: Annotated[float, Arg("With --plan: the chance that it holds.", 0.5, 0.99)] = 0.8
    judge_error: Annotated[
        float, Arg("With --plan: the share of wrong verdicts of a judge (`ragrounds judge agreement`).", 0, 0.49)
    ] = 0.0
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(PlanArguments)
def gate_plan(given: PlanArguments) -> GatePlan:
    """How many questions the critical rules of a policy need, by epochs and judges, from stored runs as a pilot.

    Raises:
        UserError: a policy that cannot be read; no stored run of its agents; a pilot that says nothing of a rule.
    """
    path = Path(given.policy)
    policy, chosen = read_policy(read_text(path), path.name), chosen_settings(given.settings, given.home)
    designs: list[DesignSize] = []
    with opened_runs(list(policy.runs.values()), chosen, newest=True) as (store, found):
        runs = dict(zip(policy.runs, found, strict=True))
        stop = GateStop(policy, runs, common_questions(store, found, False)[0])
        stop.read(store, failed=True, count=False)
        costs = [one.cost_uncached for run in found for one in store.summaries(run)]
        made = sum(len(store.done(run)) for run in found) / len(found)
        price = None if None in costs or not made else sum(cost or 0.0 for cost in costs) / made
        for _, name, _, parts in (rule for rule in stop.gate.rules if rule[0] == "critical"):
            for one in parts:
                values = stop.pilot(one)
                if len(values) < _FEWEST:
                    raise UserError(
                        f"The pilot has {len(values)} questions for {name!r}, and {_FEWEST} are needed: "
                        f"`ragrounds gate {path} --max-questions 50` asks more."
                    )
                at = one.share_of(0.0)[0]
                effect = one.effect_of(float(values.mean())) if given.effect is None else given.effect
                share, middle, squares = one.share_of(effect)
                for epochs, judges in product((1, 2, 3), (1, 3) if given.judge_error else (1,)):
                    if epochs > 1 and values.shape[1] == 1:
                        continue  # one epoch does not say how they differ
                    mean = judged(share, middle, given.judge_error, judges)
                    spread = spread_of(values, epochs, judges, given.judge_error, squares)
                    if not at < mean < 1:
                        raise UserError(
                            f"{name!r}: a truth {effect:g} beyond its limit cannot be planned for. Give --effect, "
                            "above 0 and within what there can be."
                        )
                    design = DesignSize(rule=name, effect=effect, epochs=epochs, judges=judges)
                    sized = size(design, values, at, mean, spread, policy.error, given.power, policy.seed)
                    cost = None if price is None or sized.questions is None else price * sized.questions * epochs
                    designs.append(replace(sized, cost=cost))
    return GatePlan(power=given.power, designs=tuple(designs))
