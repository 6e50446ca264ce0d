"""Replaying a benchmark through agents: plan the runs, ask the missing questions, score and compare the answers.

:func:`run` and :func:`arun` take the same arguments, a :class:`RunArguments`. A :class:`RunListener` receives the
events, and a :class:`RunResult` is the result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import structs

from ragrounds.agents.profiles import published
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.process_choice import hosts_held
from ragrounds.api.agent_texts import agent_texts, recipe_of, with_settings
from ragrounds.api.aliases import check_names, planned_names
from ragrounds.api.arguments import takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.event_loop import finish
from ragrounds.api.pilot import Pilot
from ragrounds.api.progress import RunListener as RunListener
from ragrounds.api.progress import run_listener
from ragrounds.api.replayer import replay_in_process, replayer
from ragrounds.api.resume import kept_request
from ragrounds.api.run_request import RunArguments, check_together
from ragrounds.api.run_scorers import RunScorers
from ragrounds.api.servers import probe_model_servers
from ragrounds.api.workspace import closing, open_store, texts
from ragrounds.base.contracts import FinishedAttempt, Stop
from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run
from ragrounds.evals.benchmarks import Benchmark, load, select
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.stopped_runs import StopRecord
from ragrounds.evals.engine.budget import BudgetStop, check_prices
from ragrounds.evals.engine.circuit_breaker import CircuitBreaker, FailureLimit
from ragrounds.evals.engine.derived_runs import plan_repetition
from ragrounds.evals.engine.opening import opening_recorded
from ragrounds.evals.engine.plan import PlannedRun, Recipe, asked_models, may_search, models_of, plan
from ragrounds.evals.engine.progress import ReplayProgress, finished_attempts
from ragrounds.evals.engine.question_order import SharedOrder
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.words import keep_words
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.run_names import keep_last_command, keep_names, kept_names
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.run_facts import check_replayable, not_recorded_words
from ragrounds.models.options import server_of, uses_vllm
from ragrounds.models.prices import read_prices
from ragrounds.models.server_facts import TOOLS, window_of
from ragrounds.tools.gold_documents import absent_words
from ragrounds.tools.index.vector_events import BUILT
from ragrounds.ui.tables.claim_text import live_claim_text
from ragrounds.ui.tables.comparison_warnings import drawn_words

if TYPE_CHECKING:
    from ragrounds.evals.claims.sequential_stop import ClaimStop

Watch = Callable[[Store, Sequence[Run], Sequence[Question], RunArguments, Mapping[str, str]], "ClaimStop | None"]
"""Function that gets the runs and their questions, and returns a claim that may end them early, or ``None``."""
Changing = Callable[[Store, Sequence[PlannedRun], Benchmark], tuple[list[PlannedRun], Sequence[Question]]]
"""Function that gets the planned runs of a benchmark, and returns the runs that replace them, with their questions."""
PILOT_ENDED = "the pilot was asked"
"""Reason for the end of a replay that was limited to its pilot."""


class RunResult(ComparisonResult, frozen=True, kw_only=True):
    """Result of :func:`run`: the runs, their figures, and the reason for their end."""

    benchmark: Benchmark
    runs: tuple[Run, ...]
    stopping: StopRecord | None
    """State of the claim of `until`."""
    ended: str
    """Reason why no more questions were asked; empty if all were, or if the claim was decided."""
    made: int
    """Number of model calls that were made."""
    reused: int
    """Number of model calls that were answered from the journal."""
    searches: int
    """Number of searches that were made."""
    tool_calls: int
    """Number of other tool calls that were made."""
    failures: tuple[tuple[str, int], ...]
    """Reasons of failed attempts, the most frequent first: three reasons, then the number of others."""
    capped: tuple[tuple[str, int], ...] = ()
    """Caps that attempts have reached, as `failures`."""
    paused: tuple[tuple[str, int], ...] = ()
    """Questions that attempts have asked a person, as `failures`."""
    complete: bool = False
    """True if all attempts existed already, so that nothing was asked or replayed."""


@takes(RunArguments)
def run(arguments: RunArguments) -> RunResult:
    """Replay a benchmark through agents, score every answer, and compare the agents.

    The same call resumes an interrupted run: existing attempts are not made again, and a recorded call is never paid
    twice. It may be called while an event loop runs, as in a notebook. The first Ctrl-C finishes the calls in flight.

        result = rr.run("mirage/pubmedqa", ["direct", "direct_cot"], model="openai:gpt-4o-mini", limit=50)
        result.to_pandas("attempts")

    Raises:
        UserError: a benchmark, agent, model or option is unknown; another process is using one of the runs; or the
            projection is above a threshold and `confirmed` is not set.
        StopRun: the run cannot continue; finished attempts are kept.
        Interrupted: Ctrl-C; finished attempts are kept.
    """
    with hold_runs(arguments) as replay:
        return replay.result(finish(replay.carry_out()))


@takes(RunArguments)
async def arun(arguments: RunArguments) -> RunResult:
    """Replay as :func:`run`, on the running event loop. Reading the benchmark and the corpus blocks the loop.

        result = await rr.arun(agents=["direct", "vanilla_rag"])

    Raises:
        UserError: as :func:`run`.
        asyncio.CancelledError: the task was cancelled: calls in flight are cancelled, finished attempts are kept.
    """
    with hold_runs(arguments) as replay:
        return replay.result(await replay.carry_out())


@contextmanager
def hold_runs(
    arguments: RunArguments, *, pilot_only: bool = False, watch: Watch | None = None, change: Changing | None = None
) -> Iterator[_Replay]:
    """Plan the runs of the arguments of :func:`run`, and hold them until the block ends.

    Args:
        arguments: the arguments.
        pilot_only: True to ask only a pilot's questions, and to report the projection of the rest: a study projects all
            its runs before it continues any.
        watch: function that returns a claim that may end the runs early.
        change: function that returns the runs that replace the planned ones, and their questions.
    """
    agents = agent_texts(arguments.agents)
    check_names({text: name for text, name in agents if name}, "--agent")
    request = structs.replace(
        arguments,
        agents=tuple(text for text, _ in agents),
        base_url=texts(arguments.base_url or ()),
        scorers=texts(arguments.scorers),
        questions=texts(arguments.questions),
        workers=arguments.workers if arguments.workers != "auto" or _are_texts(arguments.agents) else 1,
    )
    check_together(request)
    settings = arguments.used_settings
    listener = run_listener(arguments.listener, arguments.progress)
    request = structs.replace(request, settings=settings, home=None, listener=listener)
    loaded = select(
        load(request.benchmark, settings.home),
        limit=request.limit,
        seed=request.seed,
        per_dataset=request.per_dataset,
        ids=texts(request.questions),
    )
    if request.limit and request.per_dataset is None:
        counts = Counter(question.benchmark for question in loaded.questions)
        if words := drawn_words(counts, request.limit):
            family, _, file = request.benchmark.partition(":")
            dataset = f"{max(counts, key=counts.__getitem__)}{':' * bool(file)}{file}" if family == "mirage" else ""
            listener.message(f"{words} --benchmark {dataset} chooses one of them." if dataset else words)
    with open_store(settings, listener.message) as store, hosts_held(), ExitStack() as resources:
        resources.enter_context(opening_recorded(store, request.journal, read_prices(settings.home), listener.message))
        request, missing_agents = with_settings(request, listener.message)  # it opens systems
        names = [name for text, name in agents if text not in missing_agents]
        replay = _Replay(store, loaded, request, listener, pilot_only, watch or _claim_stop, change)
        for text, missing in missing_agents.items():
            replay.leave_out(f"{text} cannot be replayed: {missing}", len(loaded.questions) * request.epochs)
        replay.plan(resources, names)
        # The derived runs of a counterfactual are not meant by their agents' names.
        if own_runs := [run for run in replay.all_runs if not run.is_derived]:
            keep_last_command(store.engine, own_runs)
        yield replay


class _Replay:
    """Runs of one call of :func:`run`, from the plan to the last question."""

    def __init__(
        self,
        store: Store,
        loaded: Benchmark,
        request: RunArguments,
        listener: RunListener,
        pilot_only: bool,
        watch: Watch,
        change: Changing | None = None,
    ) -> None:
        self._watch, self._change = watch, change
        self._store, self._loaded, self._request, self._pilot_only = store, loaded, request, pilot_only
        self._listener, self._settings = listener, request.used_settings
        self._scorers = RunScorers(texts(request.scorers), loaded.questions, request.until)
        self.planned_runs: list[PlannedRun] = []
        self.all_runs: list[Run] = []
        """Run of each agent in turn, including runs that cannot be replayed."""
        self.not_replayed: tuple[tuple[str, int], ...] = ()
        """Reasons why agents were left out of a replay, with the number of attempts each."""
        self.until: ClaimStop | None = None
        self._journal: StoreJournal

    def result(self, ended: str) -> RunResult:
        """Return the result; `ended` is the reason for an end before the last question."""
        store, until, runs = self._store, self.until, [planned.run for planned in self.planned_runs]
        decided = until is not None and bool(until.reached())
        stopping = until.finish(store, ended) if until is not None else None
        scorers, common = self._scorers.score(store, runs), bool(ended or until)
        # One of these runs may have been judged since; the same command must still give its table.
        comparison = compare(store, runs, scorers=scorers, common=common, shared_scorers=not scorers)
        keep_words(store, [table.scorer for table in comparison.tables])
        statuses = {status for row in comparison.rows for status, count in row.statuses.items() if count}
        reasons = {name: _reasons(store, runs, name) for name in statuses & {"failed", "capped", "paused"}}
        return RunResult(
            settings=self._settings,
            benchmark=self._loaded,
            runs=tuple(runs),
            comparison=comparison,
            stopping=stopping,
            ended="" if decided else ended,
            made=self._journal.calls_made,
            reused=self._journal.reused,
            searches=self._journal.searches,
            tool_calls=self._journal.tool_calls,
            failures=(*self.not_replayed, *reasons.get("failed", ())),
            capped=reasons.get("capped", ()),
            paused=reasons.get("paused", ()),
            complete=not ended and not self._counts.done and not self._counts.left,
        )

    def plan(self, exit_stack: ExitStack, names: Sequence[str | None]) -> None:
        """Plan the runs, lease them until `exit_stack` ends, read the claim and order the questions.

        Runs that were started for a claim that cannot be watched are removed again. `names` has the name that the user
        gave to each agent, ``None`` for no name; it is empty if no agent was named.
        """
        store, request, listener = self._store, self._request, self._listener
        recipe = recipe_of(request, self._loaded)
        resumed = store.run(request.only) if request.only else None
        model_texts = asked_models(recipe)
        probed = probe_model_servers(store, model_texts, request.server_changed, request.journal, resumed)
        recipe = structs.replace(recipe, served=probed.texts, servers=probed.facts)
        self._replay = replayer(request, recipe, model_texts, exit_stack, listener.message)
        earlier_ids = {run.id for run in store.runs(counterfactuals=True)}
        with BUILT.collecting() as built:
            self.planned_runs = plan(
                store,
                self._loaded,
                recipe,
                home=self._settings.home,
                epochs=request.epochs,
                new=request.new,
                only=request.only,
                run_command=kept_request(request, recipe),
                progress=listener.reading,
                tells=self._reported_by,
            )
        for line in built:
            listener.message(line)
        questions: Sequence[Question] = self._loaded.questions
        if self._change is not None:
            self.planned_runs, questions = self._change(store, self.planned_runs, self._loaded)
        runs = self.all_runs = [planned.run for planned in self.planned_runs]
        for planned in self.planned_runs:
            listener.planned(planned.run, sorted({model.spec for model in planned.all_models}))
            if self._change is None:
                self._report_code_changes(planned)
        self._report_servers(recipe)
        if request.profile is not None:
            paper = published(request.profile, recipe.model or "")
            profile_words, scorer = paper.words(), described(paper.scorer or "")
            profile_words += f", a judge's: `{scorer.command(['RUN'])}`" if scorer.needs_judge else ""
            listener.message(f"{profile_words[0].upper()}{profile_words[1:]}.")
        for words in self._loaded.absent:
            listener.message(words)
        if (words := self._loaded.guard_words) and any(p.searcher and p.agent.card.guard for p in self.planned_runs):
            listener.message(words)
        if request.corpus and not any(may_search(planned.agent) for planned in self.planned_runs):
            listener.message("--corpus is ignored: no agent searches it.")
        golds = [self._loaded.golds[question.id] for question in self._loaded.questions]
        searchers = [planned.searcher for planned in self.planned_runs if planned.searcher and self._change is None]
        for corpus in dict.fromkeys(searcher.corpus for searcher in searchers):
            if words := absent_words(golds, request.benchmark, corpus, self._settings.home):
                listener.message(words)
        lease = exit_stack.enter_context(Lease(store.engine, [run.id for run in runs], listener.message))
        for run in runs:
            refresh_scores(store, run)
        self._scorers.score(store, runs)
        try:
            if request.journal == "replay":
                runs = self._drop_not_replayable(earlier_ids)
            given = {run.id: name for run, name in zip(self.all_runs, names, strict=False)}
            new_names = planned_names(self.planned_runs, [given.get(planned.run.id) for planned in self.planned_runs])
            self.until = self._watch(store, runs, questions, request, {**kept_names(store.engine), **new_names})
        except UserError:
            for run in runs:
                if run.id not in earlier_ids:
                    store.remove(run)
            raise
        if new_names:
            keep_names(store.engine, new_names)
        # They are read once, and before any call is in flight, because reading 100,000 takes a second.
        self._finished = finished_attempts(store, self.planned_runs)
        self._done = {run: {attempt.key for attempt in attempts} for run, attempts in self._finished.items()}
        self._counts = ReplayProgress(store, self.planned_runs, self._finished, self._scorers.first, questions)
        self._questions: Sequence[Question] = questions
        self._stops: list[Stop] = [lease]
        if (until := self.until) is not None:
            self._questions = until.questions
            self._stops.append(until)
            self._counts.live_claim = lambda: live_claim_text(until.state)
        else:  # by default, questions with a shared source are asked one after the other only with vLLM
            is_served = uses_vllm(model.spec for model in models_of(self.planned_runs))
            if (request.order or ("shared" if is_served else "given")) == "shared":
                self._stops.append(SharedOrder(request.seed))

    def leave_out(self, reason: str, attempts: int) -> None:
        """Report that an agent cannot be replayed, and count the attempts that are not made."""
        self._listener.message(reason)
        self.not_replayed += ((reason, attempts),)

    def _drop_not_replayable(self, before: Collection[str]) -> list[Run]:
        """Return the runs that can be replayed. The others are reported, and leave this command.

        Raises:
            UserError: no run can be replayed.
        """
        replayable, refused = [], []
        for planned in self.planned_runs:
            run = planned.run
            try:
                check_replayable(self._store, run, kind_of(planned.agent.card).is_sealed)
                replayable.append(run)
            except UserError as error:
                refused.append((run, error))
        if refused and not replayable:
            raise refused[0][1]
        for run, reason in refused:
            self.leave_out(str(reason), run.count * run.epochs)
            if run.id not in before:
                self._store.remove(run)
        self.planned_runs = [planned for planned in self.planned_runs if planned.run in replayable]
        return replayable

    def _reported_by(self, servers: Collection[str]) -> Mapping[str, str]:
        """Return the current reports of servers on the models that users' systems have used; empty in a replay."""
        from ragrounds.evals.engine.run_reads import told_by

        return finish(told_by(self._store, servers)) if servers and self._request.journal != "replay" else {}

    def _report_code_changes(self, planned: PlannedRun) -> None:
        """Report the progress of a run that continues, if other code started it, or why a run is new against
        expectation.
        """
        tell, run = self._listener.message, planned.run
        done, planned_attempts = len(self._store.done(run)), run.count * run.epochs
        if 0 < done < planned_attempts:
            tell(f"{run.id} resumes: {done:,} of {planned_attempts:,} attempts are done.")
        if done and (words := not_recorded_words(self._store, run, may_be_stale=True)):
            tell(words)
        if planned.changed_since is not None and planned.changed:
            costs = "only calls that are not in the journal are made"
            if any(not summary.replayable for summary in self._store.summaries(planned.changed_since)):
                costs += ", and unrecorded ones again"
            tell(f"{run.id} is a new run: since {planned.changed_since.id}, {' and '.join(planned.changed)}; {costs}.")

    def _report_servers(self, recipe: Recipe) -> None:
        """Report the windows of the models' servers, and agents whose tools a chat template leaves out."""
        tell = self._listener.message
        for server, facts in recipe.servers.items():
            if (window := window_of(facts)) is not None:
                tell(f"{server} reports a window of {window:,} tokens: longer prompts are cut to it where agents can.")
            users = [
                planned.run.agent
                for planned in self.planned_runs
                if planned.agent.card.graph == "tool_agent"
                and server in {server_of(model.spec) for model in planned.all_models}
            ]
            if users and facts.get(TOOLS) == "False":
                tell(
                    f"The chat template of {server} leaves out tools: {', '.join(users)} can call none, and answers "
                    "like an agent without tools."
                )

    async def carry_out(self) -> str:
        """Ask the questions, those of a pilot first if the user may have to confirm.

        Return the reason for an end before the last question; empty if all were asked.
        """
        request, counts = self._request, self._counts
        journal = self._journal = StoreJournal(self._store, request.journal)
        questions = self._questions
        if not self.until:  # a claim has its own random order
            questions = sorted(questions, key=lambda question: lot(request.seed, question.id))
        pilot = Pilot(
            self._store,
            self.planned_runs,
            self._finished,
            questions,
            request,
            self._listener,
            only=self._pilot_only,
        )
        self._finished = {}  # the pilot keeps them only as long as it needs them
        if request.budget.cost is not None and request.journal != "replay" and counts.left:
            check_prices(models_of(self.planned_runs))
        spent = BudgetStop(request.budget)
        # A replay costs nothing, so an agent that cannot be replayed does not end the others.
        several = request.journal == "replay" and len(self.planned_runs) > 1
        breaker = CircuitBreaker(FailureLimit() if several else request.failure_limit)
        stops = [spent, breaker, *self._stops]
        # The values that a display shows next to the counts.
        counts.names = {planned.run.id: pilot.names.get(planned.run.id, "") for planned in self.planned_runs}
        counts.benchmark, counts.budget = self._loaded.name, spent
        counts.journal = lambda: (journal.calls_made, journal.reused)

        async def ask(questions: Sequence[Question], first: bool) -> str:
            with self._listener.progress(counts, pilot=first) as count:

                def observe(finished: FinishedAttempt) -> None:
                    count(finished)
                    pilot.hear(finished)

                early = True
                try:
                    ended = await self._replay(
                        ReplayedRuns(self._store, journal, self.planned_runs, self._scorers, self._done),
                        questions,
                        self._loaded.golds,
                        concurrency=request.in_flight,
                        stops=stops,
                        listener=observe,
                    )
                    early = bool(ended)
                    return ended
                finally:
                    await pilot.finish(early)

        async with closing(models_of(self.planned_runs), journal):
            if not counts.left:  # importing the scheduler takes a second, so it is not loaded without need
                return ""
            if self._pilot_only:
                early = await ask(pilot.first, True) if pilot.first else ""
                pilot.tell()
                return early or PILOT_ENDED
            if pilot.asks:
                if pilot.first and (early := await ask(pilot.first, True)):
                    return early
                pilot.settle()
            # Attempts that fail in the pilot are made again by another command, like later failures.
            first = {question.id for question in pilot.first} if pilot.asks else set[str]()
            ended = await ask([question for question in self._questions if question.id not in first], False)
            if not ended:
                await self._repeat_last_calls(journal, [spent, breaker])
            return ended

    async def _repeat_last_calls(self, journal: StoreJournal, stops: Sequence[Stop]) -> None:
        """Make the last calls of some questions again, at the run's concurrency and within its budget."""
        store, request = self._store, self._request
        if request.journal != "reuse" or self.until is not None or self._change is not None:
            return
        for planned in self.planned_runs:
            planned_repetition = plan_repetition(store, planned, self._loaded, request.repeat, request.seed)
            if planned_repetition is None:
                continue
            repetition, questions = planned_repetition
            self._listener.message(
                f"{planned.run.id}: the last calls of {len(questions):,} questions are made again, to measure how much "
                "the server's answers vary."
            )
            await replay_in_process(
                ReplayedRuns(store, journal, [repetition], self._scorers),
                questions,
                self._loaded.golds,
                concurrency=request.in_flight,
                stops=stops,
            )


def _are_texts(agents: object) -> bool:
    """Return True if no agent is a Python object, which exists only in this process."""
    return isinstance(agents, str | tuple | list) and all(isinstance(agent, str) for agent in agents)


def _claim_stop(
    store: Store, runs: Sequence[Run], questions: Sequence[Question], request: RunArguments, names: Mapping[str, str]
) -> ClaimStop | None:
    """Return the claim that may end these runs, with their existing attempts counted; ``None`` without a claim.

    Raises:
        UserError: as :class:`ragrounds.evals.claims.sequential_stop.ClaimStop`, or `max_questions` without a claim.
    """
    claim, max_questions = request.until, request.max_questions
    if claim is None:
        if max_questions is not None:
            raise UserError("--max-questions needs --until; --limit draws a part of the benchmark.")
        return None
    from ragrounds.evals.claims.sequential_stop import ClaimStop  # most runs have no claim

    until = ClaimStop(claim, runs, questions, names, seed=request.seed, max_questions=max_questions)
    until.begin(store)
    return until


def _reasons(store: Store, runs: Sequence[Run], status: str) -> tuple[tuple[str, int], ...]:
    """Return the three most frequent reasons, each by its first message, with their counts, and the number of others.

    Messages that differ in a size, such as a prompt's tokens, have one reason. A status has three digits.
    """
    messages: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for reason in (summary.reason for run in runs for summary in store.summaries(run) if summary.status == status):
        kind = re.sub(r"\d[\d,]{3,}", "#", reason)
        messages.setdefault(kind, reason)
        counts[kind] += 1
    frequent = [(messages[kind], count) for kind, count in counts.most_common(3)]
    rest = counts.total() - sum(count for _, count in frequent)
    return (*frequent, *([("for other reasons", rest)] if rest else []))
