"""From what the user chose to runs that are ready to go: what exists goes on, what is new gets a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds import __version__
from ragrounds.agents.agent import Agent, inner_agent, open_agent
from ragrounds.contracts import Model, Searcher
from ragrounds.errors import StopRun, UserError
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.strands import Strand
from ragrounds.evals.store.store import Store, new_run_id, now
from ragrounds.graphs import catalogue
from ragrounds.models.opening import BASELINE, open_model, with_defaults
from ragrounds.models.prices import Price
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Asked, Run
from ragrounds.specs import Value
from ragrounds.tools.opening import Progress, open_searcher


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


class Opened(Struct, frozen=True):
    """An agent with all that it needs."""

    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None


def opened(recipe: Recipe, home: Path, *, progress: Progress | None = None) -> list[Opened]:
    """Open the agents of a recipe, in its order. Nothing is sent to a model.

    Raises:
        UserError: unknown agent, model or parameter; no corpus for an agent that searches; the same agent twice.
    """
    agents = [open_agent(text) for text in recipe.agents]
    _check_distinct(agents)
    models: dict[str, Model] = {}
    searchers: dict[tuple[str, str], Searcher] = {}
    return [
        Opened(
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
) -> list[Strand]:
    """One strand an agent. A run of the same fingerprint is gone on with, unless `new`; `only` names the one run that
    is to be gone on with. `asked`: how new runs were asked for, apart from their agents.

    Nothing is sent to a model and nothing is written before every agent is found to be in order.

    Raises:
        UserError: as :func:`opened`; or the run named by `only` was made by something else than this.
    """
    strands: list[Strand] = []
    for text, one in zip(recipe.agents, opened(recipe, home, progress=progress), strict=True):
        parts = (one.agent, one.models, one.searcher)
        if only is not None:
            run = same_run(store.run(only), identity(benchmark, *parts, epochs))
        else:
            again = Asked(asked.folder, (*asked.options, "--agent", text)) if asked else None
            run = begun_run(store, benchmark, *parts, epochs, new, again)
        strands.append(Strand(run, *parts, recipe.prices))
    return strands


def own_corpus(benchmark: Benchmark) -> str | None:
    """What is searched where no corpus is named: the sample brings its own."""
    return "sample" if benchmark.name.partition("/")[0] == "sample" else None


def makeup(agent: Agent, models: Mapping[str, Model], searcher: Searcher | None) -> dict[str, Any]:
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
        **makeup(agent, models, searcher),
        "benchmark": benchmark.name,
        "questions": benchmark.version,
        "selection": msgspec.to_builtins(benchmark.selection),
        "epochs": epochs,
    }


def _inner(agent: Agent) -> dict[str, Any] | None:
    """What the results of an agent inside this one depend on; the rest it shares with this one."""
    inner = inner_agent(agent)
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


def begun_run(
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


def same_run(run: Run, covered: Mapping[str, Any]) -> Run:
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
