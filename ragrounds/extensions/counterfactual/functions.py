"""Counterfactuals: a run's attempts made again with one thing changed, from its journal up to the change."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct, structs

from ragrounds.api import arguments
from ragrounds.api.arguments import WHAT, Arg, described, option_name, takes
from ragrounds.api.compare import AnalysedRuns, analyse
from ragrounds.api.event_loop import finish
from ragrounds.api.recipes import recipe_of
from ragrounds.api.resume import kept_options
from ragrounds.api.run import begun_runs
from ragrounds.api.run_request import Listener, RunArguments, Shown
from ragrounds.api.workspace import chosen_settings, opened_runs, texts
from ragrounds.base.contracts import Intervention, Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Question, Run
from ragrounds.base.settings import Settings
from ragrounds.base.specs import Spec
from ragrounds.evals.analyses.run_data import first_found, searches
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.plan import PlannedRun, fingerprint
from ragrounds.evals.store.run_names import new_run_id
from ragrounds.evals.store.store import Store, now
from ragrounds.extensions.counterfactual.changes import IDENTITY, AttemptChange, Change, Target
from ragrounds.extensions.counterfactual.effects import drawn
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import open_model
from ragrounds.version import __version__

DEFAULT_CHANGES = ("drop[passage=gold]", "none")
_CARRIED = "concurrency confirmed journal max_cost max_total_tokens max_time listener progress".split()
"""Arguments that are those of `run`."""
_FIRST = 32
"""Questions that are taken before it is looked for the first time whether they are enough; then twice as many."""
_OTHERS = 50
"""Searches for other questions that a replacement of a passage is looked for in."""


class CounterfactualArguments(Struct, frozen=True):
    """What is changed in which runs, and what that may use."""

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
        int | None, Arg("Only this many of a run's questions, drawn by `seed`.", 1, short="-n", group=WHAT)
    ] = None
    until: Annotated[
        float | None,
        Arg(
            "Draw further questions until each change has a significant effect, or an interval that reaches at most "
            "this many points to each side; it holds at whatever number that is. `limit` is the most.",
            group=WHAT,
        ),
    ] = None
    seed: Annotated[int, Arg("Of the questions that are drawn, and of the intervals.", group=WHAT)] = 0
    scorer: Annotated[str, Arg("Whose scores are compared; empty: the headline's.", group=WHAT)] = ""
    concurrency: arguments.Concurrency = None
    confirmed: arguments.Confirmed = False
    journal: arguments.Journal = "reuse"
    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None
    listener: Listener = None
    progress: Shown = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(CounterfactualArguments)
def counterfactual(given: CounterfactualArguments) -> AnalysedRuns:
    """Make the attempts of stored runs again with one thing changed, and say what that did.

    Before the change everything is answered from the journal, what follows is asked anew. First the model is asked
    again with nothing changed: every effect is shown next to that noise floor. The same change of the same run is made
    once, and resumed like any run; `rr.analyse("evidence", runs)` shows it again.

        rr.counterfactual("vanilla_rag", changes=["drop[passage=gold]", "reverse"])

    Raises:
        UserError: an unknown run or change; a run that cannot be made again: an imported one, one whose agent is code,
            one of which something is another now.
        StopRun: the run cannot go on; what ended is kept.
    """
    chosen = chosen_settings(given.settings, given.home)
    changes = [Change(text) for text in texts(given.changes)]
    if any(change.is_identity for change in changes):
        raise UserError("The identity is always measured: --samples says how often.")
    forks = dict.fromkeys(change.fork for change in changes)
    floors = [
        Change(str(Spec(IDENTITY, {"sample": sample, "search": fork})))
        for fork in forks
        for sample in range(1, given.samples + 1)
    ]
    with opened_runs(given.runs, chosen) as (store, found):
        counts = {run.id: len(store.questions(run)[0]) for run in found}
        asked = [kept_options(run.id, chosen, named=texts(given.code)) for run in found]
    for run, kept in asked:
        request = structs.replace(
            _request(kept.options),
            only=run.id,
            workers=1,
            settings=chosen,
            **{name: getattr(given, name) for name in _CARRIED},
        )
        # Relative paths of its options begin where the run began.
        folder = kept.folder if Path(kept.folder).is_dir() else "."
        for limit in _limits(given, counts[run.id]):
            change = partial(_changed, [*floors, *changes], given, limit, request, chosen)
            with contextlib.chdir(folder), begun_runs(request, change=change) as replay:
                finish(replay.carry_out())
            if given.until is not None and _decided(given.until, changes, run, given, chosen):
                break
    return analyse("evidence", [run.id for run, _ in asked], scorer=given.scorer, seed=given.seed, settings=chosen)


def _limits(given: CounterfactualArguments, questions: int) -> list[int]:
    """How many questions are taken: one number, or several after each other, until it is decided."""
    most = min(questions, given.limit or questions)
    if given.until is None:
        return [most]
    if not 0 < given.until <= 100:
        raise UserError(f"--until is {given.until:g}; expected points, above 0 up to 100.")
    return [*(size for size in (_FIRST << power for power in range(30)) if size < most), most]


def _decided(
    until: float, asked: Sequence[Change], run: Run, given: CounterfactualArguments, settings: Settings
) -> bool:
    """Whether each change that is asked for has a significant effect, or an interval that is narrow enough."""
    found = analyse("evidence", [run.id], scorer=given.scorer, seed=given.seed, settings=settings).result.record
    wanted = {str(change.spec) for change in asked}
    changes = [one for one in found.effects if one.change in wanted]  # type: ignore[union-attr]
    ends = [(one.difference.low, one.difference.high, one.difference.difference, one.verdict) for one in changes]
    return all(
        verdict == "effect" or (None not in (low, high) and max(high - middle, middle - low) <= until / 100)
        for low, high, middle, verdict in ends
    )


def _request(options: Sequence[str]) -> RunArguments:
    """The arguments that kept options of `ragrounds run` say."""
    known = {option_name(name, said): (name, kind, said.many) for name, (kind, said) in described(RunArguments).items()}
    values: dict[str, Any] = {}
    for option, text in zip(options[::2], options[1::2], strict=True):
        name, kind, many = known[option]
        if many:
            values.setdefault(name, []).append(text)
        else:
            values[name] = msgspec.convert(text, kind, strict=False)
    return RunArguments(**values)


def _changed(
    changes: Sequence[Change],
    given: CounterfactualArguments,
    limit: int,
    request: RunArguments,
    settings: Settings,
    store: Store,
    planned_runs: Sequence[PlannedRun],
    loaded: Benchmark,
) -> tuple[list[PlannedRun], Sequence[Question]]:
    """For each change the run of the parent's attempts with it; and the questions that are drawn."""
    [parent] = planned_runs
    run = parent.run
    foreign = run.identity.get("tier") != "journaled"
    made = {(one.question_id, one.epoch): one.searches for one in store.summaries(run)}
    swaps = any(change.spec.name == "swap" for change in changes)
    first = first_found(searches(store, run), loaded.questions) if swaps else {}
    others = {id: found.passages for id, found in first.items()}
    if foreign:
        _check_foreign(run, changes, any(made.values()))
    recipe = recipe_of(request, loaded, settings)
    questions = drawn(loaded.questions, given.seed)[:limit]
    if given.until is not None and len({question.benchmark for question in loaded.questions}) > 1:
        raise UserError(
            "--until needs questions of one dataset: a mean over several has no interval that holds at any number."
        )
    planned = []
    for change in changes:
        name = change.spec.parameters.get("model")
        models = (
            {str(name): open_model(with_defaults(str(name), recipe.defaults), recipe.prices)}
            if change.spec.name == "model" and not foreign
            else {}
        )
        made_again = _find_or_start(store, run, change, loaded)
        if given.until is not None:
            _follow(store, made_again, given.seed)
        planned.append(
            structs.replace(
                parent,
                run=made_again,
                models={**parent.models, **models},
                change=partial(_of_attempt, change, made, others if change.spec.name == "swap" else {}, models),
            )
        )
    return planned, questions


def _check_foreign(run: Run, changes: Sequence[Change], searches: bool) -> None:
    """Refuse what cannot be changed in a system that makes its calls itself."""
    for change in changes:
        spec = change.spec
        if spec.name == "query" or "role" in spec.parameters or "[" in str(spec.parameters.get("model", "")):
            raise UserError(
                f"{spec}: {run.agent} makes its calls itself. There, what its searches find can be changed, and the "
                "name of its model, model[model=NAME], on the same server."
            )
        if not searches and change.at(0) is None:
            raise UserError(f"{spec}: no search of {run.agent} was recorded, so that none can be changed.")


def _of_attempt(
    change: Change,
    made: Mapping[tuple[str, int], int],
    others: Mapping[str, tuple[Any, ...]],
    models: Mapping[str, Model],
    question: Question,
    gold: Gold,
    epoch: int,
) -> Intervention:
    seed = f"{question.id}#{epoch}"
    of_others = [found for id, found in others.items() if id != question.id]
    random.Random(f"others {seed}").shuffle(of_others)
    target = Target(question, gold, seed, change.template, of_others[:_OTHERS])
    return AttemptChange(change, target, change.at(made.get((question.id, epoch), 0)), models)


def _follow(store: Store, counterfactual: Run, seed: int) -> None:
    """Keep that questions are taken until something is known, and in which order: intervals go by that.

    Raises:
        UserError: they were taken in another order. Whoever may draw until an order suits finds what they look for.
    """
    before = [msgspec.msgpack.decode(body, type=int) for body in store.stops(counterfactual)]
    if any(one != seed for one in before):
        raise UserError(f"{counterfactual.agent} drew its questions with --seed {before[0]} before; give that again.")
    store.write_stop([counterfactual.id], "counterfactual", seed, msgspec.msgpack.encode(seed))


def _find_or_start(store: Store, parent: Run, change: Change, loaded: Benchmark) -> Run:
    """The stored counterfactual of this change, or a new one."""
    identity = {**parent.identity, "counterfactual": {"run": parent.id, "of": parent.fingerprint, **change.identity}}
    digest = fingerprint(identity)
    if (before := store.latest(digest)) is not None:
        return before
    every = [run.id for run in store.runs(counterfactuals=True)]
    return store.add_run(
        structs.replace(
            parent,
            id=new_run_id(parent.agent, digest, every),
            agent=f"{parent.agent} with {change.spec}",
            fingerprint=digest,
            identity=identity,
            created=now(),
            origin="counterfactual",
            asked=None,
            version=__version__,
        ),
        loaded.questions,
        loaded.golds,
    )
