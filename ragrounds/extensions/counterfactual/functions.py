"""Counterfactuals: repeat a run's attempts with one change; calls before the change come from the journal."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import structs

from ragrounds.api import arguments
from ragrounds.api.agent_texts import recipe_of
from ragrounds.api.arguments import WHAT, Arg, described, option_name, takes
from ragrounds.api.compare import AnalysedRuns, analyse
from ragrounds.api.event_loop import finish
from ragrounds.api.execution import Execution
from ragrounds.api.resume import kept_options
from ragrounds.api.run import hold_runs
from ragrounds.api.run_request import Listener, RunArguments
from ragrounds.api.workspace import open_selected_runs, texts
from ragrounds.base.contracts import Intervention, Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import AttemptKey, Gold, Question, Run
from ragrounds.base.specs import Spec
from ragrounds.evals.analyses.run_data import first_found, searches
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.derived_runs import start_derived_run
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.store.store import Store
from ragrounds.extensions.counterfactual.changes import IDENTITY, AttemptChange, Change, Target
from ragrounds.extensions.counterfactual.effects import sampling_order
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import open_model

DEFAULT_CHANGES = ("drop[passage=gold]", "none")
_RUN_ARGUMENTS = "concurrency confirmed journal max_cost max_total_tokens max_time listener progress".split()
"""Names of the arguments that are passed on to `run`."""
_SWAP_SOURCES = 50
"""Number of other questions' searches that are tried for a replacement of a passage."""


class CounterfactualArguments(Execution, frozen=True):
    """Arguments of `counterfactual`: the runs, the changes, and the limits on calls and cost."""

    runs: arguments.Runs
    changes: Annotated[
        str | Sequence[str],
        Arg(
            "What is changed (repeatable): drop, keep, swap, duplicate[passage=gold|RANK|ID], none, reverse, "
            "truncate[share=0.5], add[file=TEXT], query[text=…], model[model=…,role=…]; each at search=first, middle, "
            "last or all.",
            option="--change", group=WHAT, many=True,
        ),
    ] = DEFAULT_CHANGES  # fmt: skip
    code: Annotated[
        str | Sequence[str],
        Arg("Code that the run names, named again: a store never starts code (repeatable).", group=WHAT, many=True),
    ] = ()
    samples: Annotated[
        int, Arg("Times the model is asked again with nothing changed: the noise floor.", 1, group=WHAT)
    ] = 2
    limit: Annotated[
        int | None, Arg("Only this many of a run's questions, sampled by `seed`.", 1, short="-n", group=WHAT)
    ] = None
    seed: Annotated[int, Arg("Seed of the sampled questions and of the intervals.", group=WHAT)] = 0
    scorer: Annotated[str, Arg("Whose scores are compared; empty: the headline's.", group=WHAT)] = ""
    confirmed: arguments.Confirmed = False
    listener: Listener = None
    progress: arguments.Displayed = None


@takes(CounterfactualArguments)
def counterfactual(arguments: CounterfactualArguments) -> AnalysedRuns:
    """Repeat the attempts of stored runs with one change each, and report its effects.

    Calls before the change are answered from the journal; calls after it are made again. First the model is asked again
    with nothing changed: every effect is shown next to that noise floor. The same change of the same run is made once,
    and resumed like any run; `rr.analyse("evidence", runs)` shows it again.

        rr.counterfactual("vanilla_rag", changes=["drop[passage=gold]", "reverse"])

    Raises:
        UserError: an unknown run or change; or a run that cannot be repeated: an imported run, a run whose agent is
            code, or a run with a dependency that has changed.
        StopRun: the run cannot go on; finished attempts are kept.
    """
    resolved_settings = arguments.used_settings
    changes = [Change(text) for text in texts(arguments.changes)]
    if any(change.is_identity for change in changes):
        raise UserError("The identity is always measured: --samples says how often.")
    forks = dict.fromkeys(change.fork for change in changes)
    floors = [
        Change(str(Spec(IDENTITY, {"sample": sample, "search": fork})))
        for fork in forks
        for sample in range(1, arguments.samples + 1)
    ]
    with open_selected_runs(arguments.runs, resolved_settings) as (_, stored_runs):
        runs_with_options = [
            kept_options(run.id, resolved_settings, argument_names=texts(arguments.code)) for run in stored_runs
        ]
    for run, run_options in runs_with_options:
        request = structs.replace(
            _request(run_options.options),
            only=run.id,
            workers=1,
            settings=resolved_settings,
            **{name: getattr(arguments, name) for name in _RUN_ARGUMENTS},
        )
        # Relative paths of its options begin where the run began.
        folder = run_options.folder if Path(run_options.folder).is_dir() else "."
        change = partial(_plan_changes, [*floors, *changes], arguments, request)
        with contextlib.chdir(folder), hold_runs(request, change=change) as replay:
            finish(replay.carry_out())
    return analyse(
        "evidence",
        [run.id for run, _ in runs_with_options],
        scorer=arguments.scorer,
        seed=arguments.seed,
        settings=resolved_settings,
    )


def _request(options: Sequence[str]) -> RunArguments:
    """Return the run arguments that stored options of `ragrounds run` describe."""
    parameters_by_option = {
        option_name(name, argument): (name, kind, argument.many)
        for name, (kind, argument) in described(RunArguments).items()
    }
    values: dict[str, Any] = {}
    for option, text in zip(options[::2], options[1::2], strict=True):
        name, kind, many = parameters_by_option[option]
        if many:
            values.setdefault(name, []).append(text)
        else:
            values[name] = msgspec.convert(text, kind, strict=False)
    return RunArguments(**values)


def _plan_changes(
    changes: Sequence[Change],
    options: CounterfactualArguments,
    request: RunArguments,
    store: Store,
    planned_runs: Sequence[PlannedRun],
    loaded: Benchmark,
) -> tuple[list[PlannedRun], Sequence[Question]]:
    """Return one planned counterfactual per change, and the sampled questions."""
    [parent] = planned_runs
    run = parent.run
    makes_own_calls = run.identity.get("tier") != "journaled"
    search_counts = {summary.key: summary.searches for summary in store.summaries(run)}
    swaps = any(change.spec.name == "swap" for change in changes)
    passages_by_question = first_found(searches(store, run), loaded.questions) if swaps else {}
    passages_by_id = {id: search.passages for id, search in passages_by_question.items()}
    if makes_own_calls:
        _check_foreign(run, changes, any(search_counts.values()))
    recipe = recipe_of(request, loaded)
    questions = sampling_order(loaded.questions, options.seed)[: options.limit]
    planned = []
    for change in changes:
        name = change.spec.parameters.get("model")
        models = (
            {
                str(name): open_model(
                    with_defaults(str(name), recipe.defaults), recipe.prices, request.used_settings.home
                )
            }
            if change.spec.name == "model" and not makes_own_calls
            else {}
        )
        counterfactual_run = start_derived_run(
            store, run, "counterfactual", f"{run.agent} with {change.spec}", loaded, change.identity
        )
        planned.append(
            structs.replace(
                parent,
                run=counterfactual_run,
                models={**parent.models, **models},
                change=partial(
                    _attempt_change, change, search_counts, passages_by_id if change.spec.name == "swap" else {}, models
                ),
            )
        )
    return planned, questions


def _check_foreign(run: Run, changes: Sequence[Change], searches: bool) -> None:
    """Raise UserError for a change that is impossible in a system that makes its calls itself."""
    for change in changes:
        spec = change.spec
        if spec.name == "query" or "role" in spec.parameters or "[" in str(spec.parameters.get("model", "")):
            raise UserError(
                f"{spec}: {run.agent} makes its calls itself. There, what its searches find can be changed, and the "
                "name of its model, model[model=NAME], on the same server."
            )
        if not searches and change.changed_range(0) is None:
            raise UserError(f"{spec}: no search of {run.agent} was recorded, so that none can be changed.")


def _attempt_change(
    change: Change,
    search_counts: Mapping[AttemptKey, int],
    passages_by_id: Mapping[str, tuple[Any, ...]],
    models: Mapping[str, Model],
    question: Question,
    gold: Gold,
    epoch: int,
) -> Intervention:
    seed = f"{question.id}#{epoch}"
    passages_of_others = [passages for id, passages in passages_by_id.items() if id != question.id]
    random.Random(f"others {seed}").shuffle(passages_of_others)
    target = Target(question, gold, seed, change.template, passages_of_others[:_SWAP_SOURCES])
    return AttemptChange(change, target, change.changed_range(search_counts.get((question.id, epoch), 0)), models)
