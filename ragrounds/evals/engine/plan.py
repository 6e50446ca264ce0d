"""The words of a replay: what is run, what is handed out, what is told of it.

From what the user chose to runs that are ready to go: what exists goes on, what is new gets a fingerprint.

Servers for the models of a recipe, where several processes are to share them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds import __version__
from ragrounds.agents.agent import Agent, open_agent, subagent
from ragrounds.contracts import Model, Scorer, Searcher
from ragrounds.errors import StopRun, UserError
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.store.store import Store, new_run_id, now
from ragrounds.graphs import catalogue
from ragrounds.models.prices import Price
from ragrounds.models.providers import BASELINE, open_model, starts_server, with_defaults
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Asked, Attempt, Gold, Question, Run, Score
from ragrounds.specs import Value
from ragrounds.tools.collection_builder import Progress
from ragrounds.tools.retriever import open_searcher

FINAL: frozenset[str] = frozenset({"completed", "blocked", "capped"})
"""Attempts with another status are tried again when their run goes on. What a provider answered for good (a response
without choices) is in the journal, so trying again costs nothing."""


class PlannedRun(Struct, frozen=True):
    """One run of the replay: its agent, ready to go."""

    run: Run
    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None
    prices: Mapping[str, Price] = {}
    """The user's own, for what the searcher uses; models have theirs."""


class WorkItem(Struct, frozen=True):
    """What is handed out at once: a question in one epoch, with the planned_runs that are still to answer it.

    All of it is done by one worker, so that equal calls of several agents meet there.
    """

    question: Question
    gold: Gold
    epoch: int
    planned_runs: tuple[PlannedRun, ...]


class FinishedAttempt(Struct, frozen=True):
    """What a source, the stops and the progress display are told of an attempt."""

    run: Run
    attempt: Attempt
    """Without its events where another process made it."""
    scores: tuple[Score, ...]
    made: int | None = None
    """Tokens of the calls that were not answered from the journal; ``None``: unknown."""


Listener = Callable[[FinishedAttempt], None]
Scorers = Callable[[Question], Sequence[Scorer]]


class Stop(Protocol):
    """A reason to end a run before its last question: a budget, or a comparison that is decided."""

    @property
    def whole(self) -> bool:
        """Whether a question is to be asked in all its epochs before the next; else epoch after epoch."""

    def hear(self, finished: FinishedAttempt) -> None:
        """An attempt ended. They come in no particular order."""

    def reached(self) -> str:
        """Why no further question is to be begun; empty: go on. Asked between questions, never inside one."""


Ended = Callable[[FinishedAttempt], None]
"""To be told of an attempt that has ended and is still to be written."""


class Source(Protocol):
    """Where a pool gets its work from."""

    async def next(self) -> WorkItem | None:
        """The next item; ``None``: there is none left, or none is to be begun any more."""

    def over(self, finished: FinishedAttempt) -> None:
        """An attempt has ended; it is still to be written."""

    def hear(self, finished: FinishedAttempt) -> None:
        """An attempt is written."""


class Recipe(Struct, frozen=True, kw_only=True):
    """What agents are opened from: plain values, which can be sent to another process."""

    agents: tuple[str, ...]
    model: str | None = None
    """For every role that an agent's file leaves open."""
    corpus: str | None = None
    prices: Mapping[str, Price] = {}
    defaults: Mapping[str, bool | int | float | str | None] = {}
    """Parameters for every model that leaves them open."""
    served: Mapping[str, str] = {}
    """A model's text → the same with the address of a server that was started for it (`engine.serving`)."""


class OpenedAgent(Struct, frozen=True):
    """An agent with all that it needs."""

    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None


def opened(recipe: Recipe, home: Path, *, progress: Progress | None = None) -> list[OpenedAgent]:
    """Open the agents of a recipe, in its order. Nothing is sent to a model.

    Raises:
        UserError: unknown agent, model or parameter; no corpus for an agent that searches; the same agent twice.
    """
    agents = [open_agent(text) for text in recipe.agents]
    _check_distinct(agents)
    models: dict[str, Model] = {}
    searchers: dict[tuple[str, str], Searcher] = {}
    return [
        OpenedAgent(
            agent,
            open_models(agent, recipe.model, models, recipe.prices, recipe.defaults, recipe.served),
            _searcher(agent, recipe.corpus, home, searchers, progress),
        )
        for agent in agents
    ]


def plan(
    store: Store,
    benchmark: Benchmark,
    recipe: Recipe,
    *,
    home: Path,
    epochs: int = 1,
    new: bool = False,
    only: str | None = None,
    asked: Asked | None = None,
    progress: Progress | None = None,
) -> list[PlannedRun]:
    """One planned an agent. A run of the same fingerprint is gone on with, unless `new`; `only` names the one run that
    is to be gone on with. `asked`: how new runs were asked for, apart from their agents.

    Nothing is sent to a model and nothing is written before every agent is found to be in order.

    Raises:
        UserError: as :func:`opened`; or the run named by `only` was made by something else than this.
    """
    planned_runs: list[PlannedRun] = []
    for text, one in zip(recipe.agents, opened(recipe, home, progress=progress), strict=True):
        parts = (one.agent, one.models, one.searcher)
        if only is not None:
            run = check_same_run(store.run(only), identity(benchmark, *parts, epochs))
        else:
            again = Asked(asked.folder, (*asked.options, "--agent", text)) if asked else None
            run = find_or_start_run(store, benchmark, *parts, epochs, new, again)
        planned_runs.append(PlannedRun(run, *parts, recipe.prices))
    return planned_runs


def own_corpus(benchmark: Benchmark) -> str | None:
    """What is searched where no corpus is named: the sample brings its own."""
    return "sample" if benchmark.name.partition("/")[0] == "sample" else None


def agent_identity(agent: Agent, models: Mapping[str, Model], searcher: Searcher | None) -> dict[str, Any]:
    """All of an agent that a run's results depend on: the same on every machine that works at the run."""
    card = agent.card
    return {
        "ragrounds": __version__,
        "agent": agent.spec,
        "graph": card.graph,
        "graph_source": catalogue.digest(card.graph),
        "parameters": dict(agent.parameters),
        "prompts": PromptFolder(card.prompts).digest(catalogue.prompts_of(card.graph)),
        "models": {role: model.spec for role, model in sorted(models.items())},
        "windows": {role: model.window for role, model in sorted(models.items())},
        "retriever": searcher.spec if searcher else None,
        "corpus": searcher.corpus if searcher else None,
        "limits": msgspec.to_builtins(card.limits),
        "question_only": card.question_only,
        "oracle": card.oracle,
        "tier": catalogue.tier(card.graph),
        "inner": _inner(agent),
    }


def identity(
    benchmark: Benchmark, agent: Agent, models: Mapping[str, Model], searcher: Searcher | None, epochs: int
) -> dict[str, Any]:
    """All that a run's results depend on."""
    return {
        **agent_identity(agent, models, searcher),
        "benchmark": benchmark.name,
        "questions": benchmark.version,
        "selection": msgspec.to_builtins(benchmark.selection),
        "epochs": epochs,
    }


def _inner(agent: Agent) -> dict[str, Any] | None:
    """What the results of an agent inside this one depend on; the rest it shares with this one."""
    inner = subagent(agent)
    if inner is None:
        return None
    return {
        "agent": inner.spec,
        "graph_source": catalogue.digest(inner.card.graph),
        "parameters": dict(inner.parameters),
        "prompts": PromptFolder(inner.card.prompts).digest(catalogue.prompts_of(inner.card.graph)),
    }


def fingerprint(identity: Mapping[str, Any]) -> str:
    """Hash of an identity."""
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()


def find_or_start_run(
    store: Store,
    benchmark: Benchmark,
    agent: Agent,
    models: Mapping[str, Model],
    searcher: Searcher | None,
    epochs: int,
    new: bool,
    asked: Asked | None = None,
) -> Run:
    """The run of this identity that the store has, unless `new`; else one that is written down now."""
    covered = identity(benchmark, agent, models, searcher, epochs)
    print_ = fingerprint(covered)
    before = None if new else store.latest(print_)
    if before is not None:
        return before
    run = Run(
        id=new_run_id(agent.spec, print_, [run.id for run in store.runs()]),
        agent=agent.spec,
        benchmark=benchmark.name,
        questions=benchmark.version,
        count=len(benchmark),
        epochs=epochs,
        fingerprint=print_,
        identity=covered,
        created=now(),
        asked=asked,
    )
    try:
        store.add_run(run, benchmark.questions, benchmark.golds)
    except StopRun as error:
        other = store.latest(print_)
        if not isinstance(error.__cause__, sa.exc.IntegrityError) or other is None:
            raise
        return other  # another process has begun it in this moment
    return run


def check_same_run(run: Run, covered: Mapping[str, Any]) -> Run:
    """The run, if this is its identity still.

    Raises:
        UserError: it is not; names what differs.
    """
    if fingerprint(covered) != run.fingerprint:
        plain = msgspec.json.decode(msgspec.json.encode(covered))
        differing = sorted(key for key in {*plain, *run.identity} if plain.get(key) != run.identity.get(key))
        raise UserError(
            f"The run {run.id} cannot go on as what it was: {', '.join(differing) or 'its identity'} would be another "
            "now. What it has stays; `ragrounds run` with the options of now makes a run of its own."
        )
    return run


def _check_distinct(agents: Sequence[Agent]) -> None:
    seen: set[str] = set()
    for agent in agents:
        if agent.spec in seen:
            raise UserError(f"The agent {agent.spec!r} is named twice.")
        seen.add(agent.spec)


def open_models(
    agent: Agent,
    default: str | None,
    opened: dict[str, Model],
    prices: Mapping[str, Price],
    defaults: Mapping[str, Value | None],
    served: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Model]:
    """The agent's models by role, `default` as ``model`` where its card names none; `opened` holds what is open.

    Raises:
        UserError: no model is named, or one cannot be opened.
    """
    roles = model_texts(agent, default, defaults)
    for text in roles.values():
        if text not in opened:
            opened[text] = open_model(served.get(text, text), prices)
    return {role: opened[text] for role, text in roles.items()}


def model_texts(agent: Agent, default: str | None, defaults: Mapping[str, Value | None]) -> dict[str, str]:
    """Role → the text of its model, with what it leaves open filled in."""
    if catalogue.tier(agent.card.graph) == "own":
        return {}  # it brings its own
    named = agent.card.models if default is None else {"model": default, **agent.card.models}
    if "model" not in named:
        raise UserError(
            f"No model was named for {agent.spec!r}. Give one with --model, such as openai:gpt-4o-mini, or openai:NAME "
            f"with --base-url for a server of your own; {BASELINE} is the built-in baseline."
        )
    return {role: with_defaults(text, defaults) for role, text in named.items()}


def _searcher(
    agent: Agent,
    corpus: str | None,
    home: Path,
    opened: dict[tuple[str, str], Searcher],
    progress: Progress | None,
) -> Searcher | None:
    if not agent.card.searches:
        return None
    place = agent.card.corpus or corpus
    if place is None:
        raise UserError(
            f"The agent {agent.spec!r} searches, but no corpus was given. Name one with --corpus, such as "
            "beir:FOLDER, or `ragrounds index build` one."
        )
    key = (agent.card.retriever, place)
    if key not in opened:
        opened[key] = open_searcher(agent.card.retriever, place, home, progress=progress)
    return opened[key]


async def with_servers(
    recipe: Recipe, died: Callable[[StopRun], None], *, tell: Callable[[str], None], held: ExitStack
) -> Recipe:
    """The recipe for other processes: servers that its models need are started here, once, and joined there. They are
    stopped when `held` is closed; `died` is called, in another thread, when one ends by itself before that.

    In this process alone there is no need for it: a model starts its server at its first call.

    Raises:
        UserError: a model is not in order, or what serves it is not installed.
        StopRun: a server could not be started.
    """
    if not needs_servers(recipe):
        return recipe
    from ragrounds.models.vllm import give_up, served

    try:
        joined = await asyncio.to_thread(held.enter_context, served(sorted(_texts(recipe)), tell, died))
    except asyncio.CancelledError:
        give_up()
        raise
    return replace(recipe, served=dict(joined))


def needs_servers(recipe: Recipe) -> bool:
    """Whether a model of the recipe would start a server."""
    return any(starts_server(text) for text in _texts(recipe))


def _texts(recipe: Recipe) -> set[str]:
    agents = [open_agent(text) for text in recipe.agents]
    return {text for agent in agents for text in model_texts(agent, recipe.model, recipe.defaults).values()}
