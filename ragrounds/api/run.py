"""Replaying a benchmark through agents: plan the runs, ask what is missing, score it, compare them.

The parts in their order: a :class:`RunRequest` says what the runs are, an :class:`Execution` how they are carried out,
a :class:`RunListener` hears what happens, and :func:`run` returns a :class:`RunResult`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragrounds.api.workspace import JournalMode, closing, one_of, open_store, user_prices, user_settings
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from ragrounds.contracts import FinishedAttempt, Stop
    from ragrounds.evals.benchmarks import Benchmark
    from ragrounds.evals.compare.comparison import Comparison
    from ragrounds.evals.compare.sequential_stop import ClaimStop, StopRecord
    from ragrounds.evals.engine.plan import PlannedRun, Recipe
    from ragrounds.evals.engine.progress import Projection, ReplayProgress
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Asked, Question, Run
    from ragrounds.settings import Settings

SAMPLE_AGENTS = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")
"""What is compared on the sample benchmark where no agent is named."""
ENGINES = ("local", "ray")
"""Where workers are: on this machine, or on a Ray cluster."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


class RunRequest(Struct, frozen=True, kw_only=True):
    """What is to be run: all of it changes what the results are, or whom they are asked of."""

    benchmark: str = "sample"
    """A benchmark by name, or FAMILY:PATH."""
    agents: tuple[str, ...] = ()
    """Agents as text, ``name[key=value,…]``; none: `SAMPLE_AGENTS` on the sample, ``direct_cot`` elsewhere."""
    model: str | None = None
    """For every role that an agent leaves open; ``None``: the settings' model, or the baseline on the sample."""
    base_url: tuple[str, ...] = ()
    """OpenAI-compatible servers that share the calls; none: the settings'."""
    corpus: str | None = None
    """What agents search; ``None``: the benchmark's own, where it has one."""
    limit: int | None = None
    """Questions in all, drawn by `seed`; ``None``: every one."""
    per_dataset: int | None = None
    """Questions of each dataset, drawn by `seed`."""
    seed: int = 0
    """Of the draw, and of the order under a claim."""
    epochs: int = 1
    """How often each question is asked."""
    temperature: float | None = None
    """Of sampling; here and below ``None`` leaves it to the model's text."""
    top_p: float | None = None
    """Of nucleus sampling."""
    max_answer_tokens: int | None = None
    """Tokens that one answer may have."""
    timeout: float | None = None
    """Seconds that one call may take."""
    rpm: float | None = None
    """Requests a minute to one server, at most."""
    tpm: float | None = None
    """Tokens a minute to one server, in and out, at most."""


class Execution(Struct, frozen=True, kw_only=True):
    """How runs are carried out: speed, limits, when to stop. None of it changes what an answer is."""

    concurrency: int | None = None
    """Attempts in flight; ``None``: the settings'."""
    workers: int | None = None
    """Processes that share the work; ``None``: 1, or one a node of the cluster."""
    engine: str = "local"
    """One of `ENGINES`."""
    max_cost: float | None = None
    """Dollars that this call may spend; what is begun is finished."""
    max_total_tokens: int | None = None
    """Tokens that this call may use, in and out."""
    max_time: float | None = None
    """Seconds that this call may take."""
    until: str | None = None
    """A claim that ends the runs when it is decided: ``separated(A, B) @ 95%``."""
    max_questions: int | None = None
    """With `until`: questions to ask at most."""
    order: str | None = None
    """``given``, or ``shared``: questions that share a source follow each other. ``None``: by the models."""
    journal: JournalMode = "reuse"
    """What is done with recorded calls."""
    confirmed: bool = False
    """Nobody is to be asked where a projection is above a threshold of the settings."""
    new: bool = False
    """Begin other runs where there are some of the same identity."""
    only: str | None = None
    """The id of the one run that is to be resumed."""


class RunListener:
    """Hears what happens while runs go or a benchmark is built. Nothing is shown, and nothing confirmed, unless a
    method is overridden."""

    def message(self, text: str) -> None:
        """Something that a person at the screen should know."""

    def reading(self, what: str, count: int) -> None:
        """`count` passages of the corpus are read, embedded or indexed."""

    def planned(self, run: Run, models: Sequence[str]) -> None:
        """A run is in the store, to be answered by these models."""

    def progress(
        self, progress: ReplayProgress, *, pilot: bool = False
    ) -> AbstractContextManager[Callable[[FinishedAttempt], None]]:
        """Opened while questions are asked: what it gives is told of every attempt that ends, and counts it in
        `progress`."""
        return nullcontext(progress.observe)

    def projected(self, projection: Projection) -> None:
        """What is left is projected to take this."""

    def confirm(self, expected: str) -> bool:
        """Whether to go on although what is expected is above a threshold of the settings."""
        return False


class RunResult(Struct, frozen=True, kw_only=True):
    """What came of :func:`run`."""

    benchmark: Benchmark
    runs: tuple[Run, ...]
    comparison: Comparison
    stopping: StopRecord | None
    """How the claim of `Execution.until` stands."""
    ended: str
    """Why no further question was begun; empty: all were asked, or the claim was decided."""
    made: int
    """Calls that were made."""
    reused: int
    """Calls that were answered from the journal."""
    failures: tuple[tuple[str, int], ...]
    """Why attempts failed, most frequent first: three reasons, then how many others there are."""


def run(
    request: RunRequest,
    execution: Execution | None = None,
    listener: RunListener | None = None,
    settings: Settings | None = None,
) -> RunResult:
    """Replay a benchmark through agents, score every answer, compare the agents.

    A run of the same identity is resumed: what it has is not asked again, and a recorded call is never paid twice.

    Raises:
        UserError: an unknown benchmark, agent, model or option; somebody else works at one of the runs; the projection
            is above a threshold and nobody confirmed.
        StopRun: the run cannot go on, or was interrupted; what ended is kept.
    """
    from ragrounds.api.event_loop import finish
    from ragrounds.evals.benchmarks import load, select
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.store.journal import StoreJournal

    chosen, heard, execution = settings or user_settings(), listener or RunListener(), execution or Execution()
    one_of("--engine", execution.engine, ENGINES)
    _check_order(execution)
    loaded = select(
        load(request.benchmark, chosen.home), limit=request.limit, seed=request.seed, per_dataset=request.per_dataset
    )
    with open_store(chosen) as store, ExitStack() as held:
        replaying = _Replay(store, loaded, request, execution, heard, chosen)
        replaying.plan(held)
        journal = StoreJournal(store, execution.journal)
        ended = finish(replaying.carry_out(journal))
        until, runs = replaying.until, [planned.run for planned in replaying.planned_runs]
        decided = until is not None and bool(until.reached())
        stopping = until.finish(store, ended) if until is not None else None
        comparison = compare(store, runs, common=bool(ended or until), frontiers=len(runs) > 1)
        failed = any(row.statuses.get("failed") for row in comparison.rows)
        failures = _failures(store, runs) if failed else ()
    return RunResult(
        benchmark=loaded,
        runs=tuple(runs),
        comparison=comparison,
        stopping=stopping,
        ended="" if decided else ended,
        made=journal.made,
        reused=journal.reused,
        failures=failures,
    )


class _Replay:
    """The runs of one call of :func:`run`, from the plan to the last question."""

    def __init__(
        self,
        store: Store,
        loaded: Benchmark,
        request: RunRequest,
        execution: Execution,
        listener: RunListener,
        settings: Settings,
    ) -> None:
        self._store, self._loaded, self._request, self._execution = store, loaded, request, execution
        self._listener, self._settings = listener, settings
        self._in_flight = execution.concurrency or settings.concurrency
        self.planned_runs: list[PlannedRun] = []
        self.until: ClaimStop | None = None

    def plan(self, held: ExitStack) -> None:
        """Plan the runs, lease them until `held` ends, read the claim and order the questions. Runs that were begun
        for a claim that cannot be watched are removed again."""
        from ragrounds.evals.engine.plan import plan
        from ragrounds.evals.engine.progress import ReplayProgress
        from ragrounds.evals.store.leases import Lease
        from ragrounds.ui.progress import live_claim_text

        store, execution, listener = self._store, self._execution, self._listener
        recipe = _recipe(self._request, self._loaded, self._settings)
        self._replay = replayer(execution, self._in_flight, recipe, self._settings, held, listener.message)
        before = {run.id for run in store.runs()}
        self.planned_runs = plan(
            store,
            self._loaded,
            recipe,
            home=self._settings.home,
            epochs=self._request.epochs,
            new=execution.new,
            only=execution.only,
            asked=kept_request(self._request, recipe, execution.concurrency),
            progress=listener.reading,
        )
        runs = [planned.run for planned in self.planned_runs]
        for planned in self.planned_runs:
            listener.planned(planned.run, sorted({model.spec for model in planned.models.values()}))
            if planned.started_earlier:
                listener.message(
                    f"{planned.run.id} was begun by an earlier version; its graph has changed in words alone since, "
                    "so it is resumed."
                )
        lease = held.enter_context(Lease(store.engine, [run.id for run in runs], listener.message))
        try:
            self.until = _watched(store, runs, self._loaded.questions, self._request.seed, execution)
        except UserError:
            for run in runs:
                if run.id not in before:
                    store.remove(run)
            raise
        self._counts = ReplayProgress(store, self.planned_runs)
        questions, together = _in_order(execution.order, self._loaded, self.planned_runs)
        until = self.until
        self._questions: Sequence[Question] = questions if until is None else until.questions
        self._stops: list[Stop] = [lease, *together] if until is None else [lease, until]
        if until is not None:
            self._counts.live_claim = lambda: live_claim_text(until.state)

    async def carry_out(self, journal: StoreJournal) -> str:
        """Ask the questions, those of a pilot first where somebody may have to confirm. Says why it ended before the
        last question; empty: it did not."""
        from ragrounds.evals.engine.budget import Budget, BudgetStop

        pilot = Pilot(
            self._store,
            self.planned_runs,
            self._questions,
            self._settings,
            self._execution,
            seed=None if self.until else self._request.seed,
            in_flight=self._in_flight,
            listener=self._listener,
        )
        execution = self._execution
        budget = Budget(cost=execution.max_cost, tokens=execution.max_total_tokens, seconds=execution.max_time)
        stops = [BudgetStop(budget), *self._stops]

        async def ask(questions: Sequence[Question], first: bool) -> str:
            from ragrounds.evals.scorers import scorers_for

            with self._listener.progress(self._counts, pilot=first) as heard:

                def hear(finished: FinishedAttempt) -> None:
                    heard(finished)
                    pilot.hear(finished)

                return await self._replay(
                    self._store,
                    journal,
                    self.planned_runs,
                    questions,
                    self._loaded.golds,
                    scorers_for,
                    concurrency=self._in_flight,
                    stops=stops,
                    listener=hear,
                )

        async with closing([model for planned in self.planned_runs for model in planned.models.values()], journal):
            if pilot.asks:
                if pilot.first and (early := await ask(pilot.first, True)):
                    return early
                pilot.settle()
            return await ask(self._questions, False)


class Pilot:
    """The first questions of a run, from which it is projected what the rest will take.

    Where the rest might cost more than the settings let pass, these questions are asked before all others, and
    somebody must confirm before the rest. Elsewhere nothing waits: the projection is told when the run has come that
    far. A run whose models are known to cost nothing has no projection.
    """

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        questions: Sequence[Question],
        settings: Settings,
        execution: Execution,
        *,
        seed: int | None,
        in_flight: int,
        listener: RunListener,
    ) -> None:
        from ragrounds.evals.engine.progress import costs_money, pilot_questions

        self._store, self._planned_runs, self._all = store, planned_runs, questions
        self._in_flight, self._listener = in_flight, listener
        cost = costs_money(planned_runs)
        sure = execution.confirmed or execution.journal == "replay"
        # A budget says already how much may be spent.
        self._dollars = settings.project_above_dollars if execution.max_cost is None and cost is not False else None
        self._minutes = settings.project_above_minutes if execution.max_time is None else None
        asks = not sure and (self._minutes is not None or (self._dollars is not None and bool(cost)))
        first = pilot_questions(store, planned_runs, questions, seed) if asks or cost is not False else None
        self.asks = asks and first is not None
        """Whether somebody may have to confirm: then :meth:`settle` comes after `first` and before the rest."""
        self.first = first or ()
        self._due = {planned.run.id: len(self.first) * planned.run.epochs for planned in planned_runs}
        self._reported = first is None or self.asks

    def hear(self, finished: FinishedAttempt) -> None:
        """Tell the projection when every agent has answered as many questions as a pilot has."""
        self._due[finished.run.id] -= 1
        if not self._reported and all(left <= 0 for left in self._due.values()):
            self._reported = True
            self._projected()

    def settle(self) -> None:
        """After the first questions: tell the projection, and ask for consent where it is above a threshold.

        Raises:
            UserError: it is, and the listener does not confirm.
        """
        from ragrounds.ui.progress import dollars_span, duration_span

        found = self._projected()
        if found is None:
            return
        above = []
        cost, seconds = found.cost, found.seconds
        if self._dollars is not None and cost is not None and (cost.high or cost.value) > self._dollars:
            above.append((f"{dollars_span(cost)}", f"project_above_dollars = {self._dollars:g}", "--max-cost"))
        if self._minutes is not None and (seconds.high or seconds.value) > 60 * self._minutes:
            above.append((f"{duration_span(seconds)}", f"project_above_minutes = {self._minutes:g}", "--max-time"))
        what = " and ".join(f"{value}, which may be above {name}" for value, name, _ in above)
        if above and not self._listener.confirm(what):
            raise UserError(
                f"The rest of this run is projected to take {what}. Give --yes to go on, or bound it with "
                f"{' or '.join(option for _, _, option in above)}; what is answered is kept."
            )

    def _projected(self) -> Projection | None:
        from ragrounds.evals.engine.progress import projection

        found = projection(self._store, self._planned_runs, self._all, self._in_flight)
        if found is not None:
            self._listener.projected(found)
        return found


def replayer(
    execution: Execution,
    in_flight: int,
    recipe: Recipe,
    settings: Settings,
    held: ExitStack,
    message: Callable[[str], None],
) -> Callable[..., Awaitable[str]]:
    """What replays: :func:`ragrounds.evals.engine.scheduler.replay` itself, or a function of the same parameters that
    distributes the work. What it needs until the run's end is put into `held`.

    Raises:
        UserError: more workers than attempts in flight; Ray is not installed, or would have to start servers, or is on
            more than one machine without PostgreSQL.
    """
    from ragrounds.evals.engine.scheduler import replay

    engine, workers = execution.engine, execution.workers
    if engine == "local" and (workers or 1) == 1:
        return replay
    from ragrounds.evals.engine.distributed.leader import replay_distributed
    from ragrounds.evals.engine.plan import needs_servers, with_servers

    if workers is not None and workers > in_flight:
        raise UserError(
            f"--workers {workers} with --concurrency {in_flight}: a worker has at least one attempt in flight. "
            "Raise --concurrency, which is for all workers together, or take fewer workers."
        )
    distributed = partial(replay_distributed, recipe=recipe, home=settings.home, url=settings.store, say=message)
    if engine == "local":
        from ragrounds.evals.engine.distributed.worker import open_pipes

        serve = partial(with_servers, tell=message, held=held)
        return partial(distributed, open_links=partial(open_pipes, workers or 1), serve=serve)
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: pip install 'ragrounds[ray]'. Processes on this machine: --workers N.")
    if needs_servers(recipe):
        raise UserError("--engine ray starts no servers: start them yourself, and name them with --base-url.")
    from ragrounds.evals.engine.distributed.ray_cluster import open_cluster

    joining = partial(open_cluster, workers, in_flight, settings.store is not None, held, message)
    return partial(distributed, open_links=joining)


def is_sample(loaded: Benchmark) -> bool:
    """Whether a benchmark is the built-in sample."""
    return loaded.name.partition("/")[0] == "sample"


def _recipe(request: RunRequest, loaded: Benchmark, settings: Settings) -> Recipe:
    """What the agents of a request are opened from, with the settings in place of what it leaves open."""
    from ragrounds.evals.engine.plan import Recipe, own_corpus
    from ragrounds.models.providers import BASELINE

    url = ",".join(request.base_url) or settings.base_url
    return Recipe(
        agents=request.agents or (SAMPLE_AGENTS if is_sample(loaded) else ("direct_cot",)),
        model=request.model or settings.model or (BASELINE if is_sample(loaded) and not url else None),
        corpus=request.corpus or own_corpus(loaded),
        prices=user_prices(settings),
        defaults={
            "base_url": url,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_answer_tokens,
            "timeout": request.timeout,
            "rpm": request.rpm,
            "tpm": request.tpm,
        },
    )


def _check_order(execution: Execution) -> None:
    from ragrounds.evals.engine.question_order import ORDERS

    if execution.order is not None:
        if execution.until is not None:
            raise UserError("--order cannot be set with --until, which asks in an order drawn by --seed.")
        one_of("--order", execution.order, ORDERS)


def _in_order(
    order: str | None, loaded: Benchmark, planned_runs: Sequence[PlannedRun]
) -> tuple[Sequence[Question], Sequence[Stop]]:
    """The questions as they are asked, and what else the replay needs for that. Where no order is chosen, questions
    that share something follow each other for models that vLLM serves."""
    from ragrounds.evals.engine.question_order import EpochsTogether, ordered
    from ragrounds.models.options import VLLM

    served = any(model.spec.startswith(f"{VLLM}:") for planned in planned_runs for model in planned.models.values())
    chosen: Any = order or ("shared" if served else "given")
    return ordered(loaded.questions, loaded.golds, chosen), [EpochsTogether()] if chosen == "shared" else []


def _watched(
    store: Store, runs: Sequence[Run], questions: Sequence[Question], seed: int, execution: Execution
) -> ClaimStop | None:
    """What watches these runs for the claim; it knows what they have already. ``None``: there is no claim.

    Raises:
        UserError: as :class:`ragrounds.evals.compare.sequential_stop.ClaimStop`, or `max_questions` without a claim.
    """
    from ragrounds.evals.compare.sequential_stop import ClaimStop

    claim, most = execution.until, execution.max_questions
    if claim is None:
        if most is not None:
            raise UserError("--max-questions goes with --until; --limit draws a part of the benchmark.")
        return None
    until = ClaimStop(claim, runs, questions, seed=seed, most=most)
    until.begin(store)
    return until


def _failures(store: Store, runs: Sequence[Run]) -> tuple[tuple[str, int], ...]:
    reasons = Counter(one.reason for run in runs for one in store.summaries(run) if one.status == "failed")
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(3))
    return (*reasons.most_common(3), *([("for other reasons", rest)] if rest else []))


_KEPT = (
    "benchmark",
    "model",
    "base_url",
    "corpus",
    "limit",
    "per_dataset",
    "seed",
    "epochs",
    "temperature",
    "top_p",
    "max_answer_tokens",
    "timeout",
)
"""What is kept of a request with its runs: what a run is, and how its server is reached. Not what belongs to one
evening: budgets, displays, where workers are, when to stop."""
_FORMER = {"--answer-tokens": "--max-answer-tokens"}
"""Options that runs of earlier versions keep → today's."""


def kept_request(request: RunRequest, recipe: Recipe, concurrency: int | None) -> Asked:
    """What is kept of a request, apart from its agents, as options of `ragrounds run`. Nothing that looks like a key
    is."""
    from ragrounds.models.faults import redacted
    from ragrounds.records import Asked

    url = recipe.defaults["base_url"]
    values = {name: getattr(request, name) for name in _KEPT}
    values |= {"model": recipe.model, "base_url": str(url).split(",") if url else [], "concurrency": concurrency}
    options: list[str] = []
    for name, held in values.items():
        for value in held if isinstance(held, list) else [held]:
            if value is not None:
                options += [f"--{name.replace('_', '-')}", redacted(_LOGIN.sub("", str(value)))]
    return Asked(str(Path.cwd()), tuple(options))


def kept_options(reference: str, settings: Settings | None = None) -> tuple[Run, Asked]:
    """A run, and the options of `ragrounds run` that ask for it again, in today's words.

    Raises:
        UserError: no such run; one that was imported; one that does not say how it was asked for.
    """
    from ragrounds.records import Asked

    with open_store(settings or user_settings()) as store:
        run = store.run(reference)
    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nothing to resume.")
    if run.asked is None:
        raise UserError(
            f"The run {run.id} does not say how it was asked for: an older version made it, or another command. Give "
            "its command again, which resumes it."
        )
    return run, Asked(run.asked.folder, tuple(_FORMER.get(word, word) for word in run.asked.options))
