"""Runs that are derived from another one: counterfactuals, and repetitions of its last calls.

A repetition shows how much the answers of a server vary between equal calls. Attempts at some questions are made again:
all calls come from the journal, except for the last one, which is a new occurrence of the same request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import structs

from ragrounds.base.contracts import Intervention, Model
from ragrounds.base.proxies import is_this_machine
from ragrounds.base.records import Gold, Question, Run
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.engine.plan import PlannedRun, fingerprint
from ragrounds.evals.engine.progress import costs_money
from ragrounds.evals.store.run_names import new_run_id
from ragrounds.evals.store.store import Store, now, repetition_fingerprint
from ragrounds.models.options import starts_server
from ragrounds.version import __version__

_FEWEST, _MOST = 9, 20
"""Numbers of questions that are repeated if the user gives none."""
_SHARE = 0.03
"""Largest share of a run's model calls that is repeated then."""


def start_derived_run(
    store: Store,
    parent: Run,
    origin: Literal["counterfactual", "repetition"],
    agent: str,
    benchmark: Benchmark,
    change: Mapping[str, object],
) -> Run:
    """Return the stored run that a change derives from `parent`, or store a new one."""
    identity = {**parent.identity, origin: {"run": parent.id, "of": parent.fingerprint, **change}}
    digest = repetition_fingerprint(parent) if origin == "repetition" else fingerprint(identity)
    if (existing := store.latest(digest)) is not None:
        return existing
    run_ids = [run.id for run in store.runs(counterfactuals=True)]
    return store.add_run(
        structs.replace(
            parent,
            id=new_run_id(parent.agent, digest, run_ids),
            agent=agent,
            fingerprint=digest,
            identity=identity,
            created=now(),
            origin=origin,
            asked=None,
            version=__version__,
        ),
        benchmark.questions,
        benchmark.golds,
    )


def plan_repetition(
    store: Store, planned: PlannedRun, benchmark: Benchmark, count: int | None, seed: int
) -> tuple[PlannedRun, list[Question]] | None:
    """Return the repetition of a run, and its questions in random order; ``None`` if nothing is to be repeated.

    Args:
        store: store of the run.
        planned: the run. If its system makes its calls itself, it has no repetition.
        benchmark: benchmark of the run.
        count: number of questions; ``None``: at most 3 % of the run's model calls, from 300 calls on, and only if all
            models are on this machine and have no price.
        seed: seed of the sample.
    """
    run = planned.run
    is_free = not costs_money([planned]) and all(map(_is_on_this_machine, planned.all_models))
    if run.identity.get("tier") != "journaled" or (count is None and not is_free):
        return None
    made = list(store.summaries(run))
    if count is None:
        affordable = int(_SHARE * sum(attempt.model_calls for attempt in made) / run.epochs)
        count = min(affordable, _MOST) if affordable >= _FEWEST else 0
    if count == 0:
        return None
    incomplete = {attempt.question_id for attempt in made if attempt.status != "completed"}
    answered = {attempt.question_id for attempt in made if attempt.model_calls} - incomplete
    candidates = [question for question in benchmark.questions if question.id in answered]
    repeated = sorted(candidates, key=lambda question: lot(seed, "repetition", question.id))[:count]
    calls = {attempt.key: attempt.model_calls for attempt in made}
    repetition = start_derived_run(store, run, "repetition", f"{run.agent} repeated", benchmark, {})

    def repeat_last_call(question: Question, gold: Gold, epoch: int) -> _LastCallAgain:
        return _LastCallAgain(calls[question.id, epoch])

    return structs.replace(planned, run=repetition, change=repeat_last_call), repeated


def _is_on_this_machine(model: Model) -> bool:
    server = str(parse(model.spec).parameters.get("server", ""))
    return starts_server(model.spec) or is_this_machine(urlsplit(server).hostname or "")


class _LastCallAgain(Intervention):
    """Repetition of the last call of one attempt."""

    def __init__(self, calls: int) -> None:
        """`calls`: number of model calls of the original attempt."""
        self._calls_left = calls

    def sample(self, searches: int) -> int:
        """Count a call; return 1 from the last call of the original attempt on, before it 0."""
        self._calls_left -= 1
        return int(self._calls_left <= 0)
