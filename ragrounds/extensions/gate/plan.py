"""The number of questions that a release gate needs, planned from stored runs."""

from __future__ import annotations

from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from rich.console import Console

from ragrounds.api.arguments import Arg, takes
from ragrounds.api.execution import Workspace
from ragrounds.api.results import Result
from ragrounds.api.workspace import open_selected_runs
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.spent import known_sum
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.extensions.gate.policy import GateStop, read_policy
from ragrounds.extensions.gate.sample_size import DesignSize, majority_mean, size, spread_of
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.tables.text_tables import print_table

_MINIMUM_QUESTIONS = 20
"""Minimum number of questions of a pilot."""


class GatePlan(Result, frozen=True, kw_only=True):
    """Numbers of questions that the critical rules of a policy need, by design."""

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


class PlanArguments(Workspace, frozen=True):
    """Policy to plan for, and options of the plan."""

    policy: Annotated[str | Path, Arg("The policy, a TOML file.", option="-")]
    effect: Annotated[
        float | None, Arg("With --plan: how far beyond its limit the truth is, 0.03. [default: as in the pilot]")
    ] = None
    power: Annotated[float, Arg("With --plan: the chance that it holds.", 0.5, 0.99)] = 0.8
    judge_error: Annotated[
        float, Arg("With --plan: the share of wrong verdicts of a judge (`ragrounds judge agreement`).", 0, 0.49)
    ] = 0.0


@takes(PlanArguments)
def gate_plan(arguments: PlanArguments) -> GatePlan:
    """Plan how many questions the critical rules of a policy need, by epochs and judges, with stored runs as a pilot.

    Raises:
        UserError: the policy cannot be read, its agents have no stored run, or the pilot has too few questions for a
            rule.
    """
    path = Path(arguments.policy)
    policy, settings = read_policy(read_text(path), path.name), arguments.used_settings
    designs: list[DesignSize] = []
    with open_selected_runs(list(policy.runs.values()), settings, newest=True) as (store, stored):
        runs = dict(zip(policy.runs, stored, strict=True))
        stop = GateStop(policy, runs, common_questions(store, stored, False)[0])
        stop.read(store, failed=True, count=False)
        cost = known_sum(summary.cost_uncached for run in stored for summary in store.summaries(run))
        attempts_per_run = sum(len(store.done(run)) for run in stored) / len(stored)
        price = None if cost is None or not attempts_per_run else cost / attempts_per_run
        for _, name, _, parts in (rule for rule in stop.gate.rules if rule[0] == "critical"):
            for condition in parts:
                values = stop.pilot(condition)
                if len(values) < _MINIMUM_QUESTIONS:
                    raise UserError(
                        f"The pilot has {len(values)} questions for {name!r}, and {_MINIMUM_QUESTIONS} are needed: "
                        f"`ragrounds gate {path} --max-questions 50` asks more."
                    )
                limit_share = condition.share_of(0.0)[0]
                effect = condition.effect_of(float(values.mean())) if arguments.effect is None else arguments.effect
                share, middle, squares = condition.share_of(effect)
                for epochs, judges in product((1, 2, 3), (1, 3) if arguments.judge_error else (1,)):
                    if epochs > 1 and values.shape[1] == 1:
                        continue  # one epoch does not show how epochs differ
                    mean = majority_mean(share, middle, arguments.judge_error, judges)
                    spread = spread_of(values, epochs, judges, arguments.judge_error, squares)
                    if not limit_share < mean < 1:
                        raise UserError(
                            f"{name!r}: a truth {effect:g} beyond its limit cannot be planned for. Give --effect, "
                            "above 0 and within what there can be."
                        )
                    design = DesignSize(rule=name, effect=effect, epochs=epochs, judges=judges)
                    sized = size(
                        design, values, limit_share, mean, spread, stop.gate.error, arguments.power, policy.seed
                    )
                    cost = None if price is None or sized.questions is None else price * sized.questions * epochs
                    designs.append(replace(sized, cost=cost))
    return GatePlan(power=arguments.power, designs=tuple(designs))
