"""Plan of a replay: the run that each agent makes, from the user's options.

A run's identity is everything that its results depend on; its fingerprint is the hash of the identity. A run with the
same fingerprint is resumed, any other is a new one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ragrounds.agents.agent import Agent, open_agent, subagent
from ragrounds.agents.systems.kinds import kind_of, reads_of_systems
from ragrounds.agents.systems.settings import OPTIONS_OF_MODELS
from ragrounds.base.contracts import Intervention, Model, Searcher
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Asked, Gold, Question, Run
from ragrounds.base.settings import McpServer
from ragrounds.base.specs import Spec, Value, parse, without_addresses
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.system_identity import (
    PARTS_IN_WORDS,
    SYSTEM_PARTS,
    SystemIdentity,
    changes,
    compared,
    differences,
    differing_parts,
    find_abandoned_run,
    find_matching_run,
    is_own,
    join_clauses,
)
from ragrounds.evals.scorers import described, headline_of, scorer_code
from ragrounds.evals.store.reads import read_rows, reads_of
from ragrounds.evals.store.run_names import new_run_id
from ragrounds.evals.store.store import Store, now
from ragrounds.graphs import catalogue
from ragrounds.models.options import server_of, starts_server, with_defaults
from ragrounds.models.prices import Price
from ragrounds.models.providers import BASELINE, open_model
from ragrounds.prompts.loader import PromptFolder
from ragrounds.tools.agent_tools import CORPUS, READ, AgentTool, ToolSources, check_tools, open_tools, tools_need_corpus
from ragrounds.tools.index.collection_builder import Progress
from ragrounds.tools.index.embedding_servers import embedding_models, fingerprints_in, with_fingerprints
from ragrounds.tools.mcp_servers import McpSource
from ragrounds.tools.retriever import needs_corpus, open_searcher, searcher_codes
from ragrounds.version import __version__


class Recipe(Struct, frozen=True, kw_only=True):
    """Options from which agents are opened: plain values, which can be sent to another process."""

    agents: tuple[str, ...]
    model: str | None = None
    """Model for every role that an agent's file leaves open."""
    corpus: str | None = None
    prices: Mapping[str, Price] = {}
    defaults: Mapping[str, bool | int | float | str | None] = {}
    """Parameters for every model that leaves them open."""
    served: Mapping[str, str] = {}
    """Map from a model's text to the text by which it is opened. That text has the address of a server that was started
    for it (:func:`with_servers`), or the fingerprint of another server than the first at its address.
    """
    servers: Mapping[str, Mapping[str, str]] = {}
    """Facts that servers report about themselves, as :attr:`ragrounds.base.records.Run.servers`; new runs store those
    of their servers.
    """
    mcp: Mapping[str, McpServer] = {}
    """MCP servers of the settings."""
    closed: bool = False
    """True if nothing may be sent, as in a replay: the offers of MCP servers are then read from the stored ones."""


class OpenedAgent(Struct, frozen=True):
    """Agent with its models, by role, its retriever, and the tools that it lists."""

    agent: Agent
    models: Mapping[str, Model]
    searcher: Searcher | None
    tools: tuple[AgentTool, ...] = ()
    inner: Mapping[str, tuple[OpenedAgent, ...]] = {}
    """Agents inside this one, as :attr:`ragrounds.agents.agent.Agent.inner`."""

    @property
    def all_models(self) -> list[Model]:
        """Models of the agent and of the agents inside it."""
        inside = [model for agents in self.inner.values() for agent in agents for model in agent.all_models]
        return list({id(model): model for model in [*self.models.values(), *inside]}.values())


class PlannedRun(OpenedAgent, frozen=True, kw_only=True):
    """Run that can be replayed: its record, and its agent with everything that it needs."""

    run: Run
    prices: Mapping[str, Price] = {}
    """Prices given by the user, for what the searcher uses; models have their own prices."""
    changed_since: Run | None = None
    """Earlier run of the same agent on the same questions with other code, for a run that was begun now."""
    changed: tuple[str, ...] = ()
    """Differences from `changed_since`, each a clause: ``the retriever bm25 changed`` …"""
    change: Callable[[Question, Gold, int], Intervention] | None = None
    """Function that returns the counterfactual change for the attempt at a question in an epoch."""


def models_of(planned_runs: Iterable[PlannedRun]) -> list[Model]:
    """Return the models of some runs, each once."""
    return list({id(model): model for planned in planned_runs for model in planned.all_models}.values())


def plan(
    store: Store,
    benchmark: Benchmark,
    recipe: Recipe,
    *,
    home: Path,
    epochs: int = 1,
    new: bool = False,
    only: str | None = None,
    run_command: Asked | None = None,
    progress: Progress | None = None,
    tells: Callable[[Collection[str]], Mapping[str, str]] = lambda servers: {},
) -> list[PlannedRun]:
    """Return one run for each agent of `recipe`, in its order: one that the store has, or a new one that is written
    now.

    Nothing is sent to a model, and nothing is written before every agent has been checked.

    Args:
        store: where runs are looked up and written.
        benchmark: the questions.
        recipe: the agents.
        home: where indexes are.
        epochs: how often each question is answered.
        new: start new runs even if the store has runs of the same fingerprints.
        only: the id of the one run that is to be resumed.
        run_command: the options of new runs, apart from their agents.
        progress: called while an index is built.
        tells: returns the facts that servers of users' systems report now.

    Raises:
        UserError: as :func:`open_agents`; or the run `only` has another identity than this one.
    """
    planned_runs: list[PlannedRun] = []
    stored_runs = store.runs()
    known_ids = {run.id for run in stored_runs}
    for text, opened in zip(recipe.agents, open_agents(recipe, home, progress=progress), strict=True):
        identity = _system_identity(benchmark, opened, epochs)
        # Models and servers that reported facts about themselves in earlier runs of the agent.
        earlier_runs = [run for run in stored_runs if identity.reads is not None and run.agent == opened.agent.spec]
        servers = {read.name for run in earlier_runs for read in reads_of(store, run) if read.kind == "server"}
        identity = identity._replace(reported_facts=tells(servers))
        if only is not None:
            run = check_same_run(store, store.run(only), identity)
        else:
            options = options_with_effect(opened.agent, run_command.options) if run_command else ()
            origin = Asked(run_command.folder, (*options, "--agent", text)) if run_command else None
            run = find_or_start_run(
                store, benchmark, opened, epochs, new=new, run_command=origin, servers=recipe.servers, identity=identity
            )
        is_new = run.id not in known_ids
        earlier, changed = _changed_since(store, run, identity, stored_runs) if is_new else (None, ())
        planned_runs.append(
            PlannedRun(**asdict(opened), run=run, prices=recipe.prices, changed_since=earlier, changed=changed)
        )
    return planned_runs


def _system_identity(benchmark: Benchmark, opened: OpenedAgent, epochs: int) -> SystemIdentity:
    """Return the identity of a run: the agent's identity, the questions, the number of epochs, and the files that a
    user's system reads.
    """
    identity = {
        **agent_identity(opened),
        "benchmark": benchmark.name,
        "questions": benchmark.version,
        "selection": msgspec.to_builtins(benchmark.selection),
        "epochs": epochs,
    }
    if opened.inner:  # a wrapper's behaviour depends on how answers are read
        scorers = [headline.scorer for headline in headline_of(benchmark.questions)]
        identity["reading"] = {name: scorer_code(described(name)) for name in scorers}
    return SystemIdentity(identity, reads_of_systems(agent.card for agent in opened.agent.with_inner))


def options_with_effect(agent: Agent, options: Sequence[str]) -> tuple[str, ...]:
    """Return options of `ragrounds run`, each followed by its value, without those that the agent ignores.

    A model that the card of a user's system passes on is in the agent's text.
    """
    ignored = set() if may_search(agent) else {"--corpus"}
    if not kind_of(agent.card).uses_our_models():
        ignored = {"--corpus", *(f"--{name.replace('_', '-')}" for name in OPTIONS_OF_MODELS)}
    pairs = zip(options[::2], options[1::2], strict=True)
    return tuple(text for option in pairs if option[0] not in ignored for text in option)


_CODE = ("graph_code", "refine_code", "refine_prompts", "retriever_code", "model_code", "prompts", "inner")
"""Parts of an identity that are digests."""
_OF_SYSTEMS = (*_CODE, *SYSTEM_PARTS, "graph", "models", "limits")
"""Parts of an identity that may change in a user's system under the same name."""


def _changed_since(
    store: Store, run: Run, current: SystemIdentity, stored_runs: Sequence[Run]
) -> tuple[Run | None, tuple[str, ...]]:
    """Return an earlier run that differs from a new one only in digests or in the code and files of its system, with
    the differences.

    Among several it is the one with the fewest differences, and the latest of these.
    """
    plain = msgspec.json.decode(msgspec.json.encode(run.identity))
    ignored_parts = _OF_SYSTEMS if is_own(plain) else _CODE
    compared_parts = {key: value for key, value in plain.items() if key not in ignored_parts}
    nearest: tuple[Run | None, list[str]] = (None, [])
    for earlier in reversed(stored_runs):
        if earlier.agent != run.agent:
            continue
        if {key: value for key, value in earlier.identity.items() if key not in ignored_parts} == compared_parts:
            clauses = changes(store, earlier, current)
            if nearest[0] is None or len(clauses) < len(nearest[1]):
                nearest = earlier, clauses
    return nearest[0], join_clauses(nearest[1])


def open_agents(recipe: Recipe, home: Path, *, progress: Progress | None = None) -> list[OpenedAgent]:
    """Open the agents of a recipe, in its order. Equal models and retrievers are opened once. Nothing is sent.

    Raises:
        UserError: unknown agent, model or parameter; no corpus for an agent that searches; the same agent twice.
    """
    agents = [open_agent(text) for text in recipe.agents]
    for part in (part for agent in agents for part in agent.with_inner):
        kind_of(part.card).check_effects(parse(part.spec))
    specs = [agent.spec for agent in agents]
    if twice := next((spec for index, spec in enumerate(specs) if spec in specs[:index]), None):
        raise UserError(f"The agent {twice!r} is given twice.")
    models: dict[str, Model] = {}
    searchers: dict[tuple[str, str], Searcher] = {}

    def opened(agent: Agent) -> OpenedAgent:
        """Open an agent with the agents inside it."""
        return OpenedAgent(
            agent,
            open_models(agent, recipe.model, models, recipe.prices, recipe.defaults, recipe.served, home),
            _open_searcher(parse(agent.card.retriever), agent, recipe, home, searchers, progress)
            if searches_corpus(agent)
            else None,
            _open_tools(agent, recipe, home, searchers, progress),
            {key: tuple(map(opened, agents)) for key, agents in agent.inner.items()},
        )

    return [opened(agent) for agent in agents]


def searches_corpus(agent: Agent) -> bool:
    """Return True if an agent searches a corpus. An agent with tools does if one of them searches the corpus."""
    if not agent.card.tools:
        return agent.card.searches
    check_tools(agent.card.tools)
    return tools_need_corpus(agent.card.tools)


def may_search(agent: Agent) -> bool:
    """Return True if an agent or one inside it searches a corpus, or is a user's system."""
    return any(searches_corpus(part) or kind_of(part.card).is_users_system for part in agent.with_inner)


def _open_tools(
    agent: Agent,
    recipe: Recipe,
    home: Path,
    opened: dict[tuple[str, str], Searcher],
    progress: Progress | None,
) -> tuple[AgentTool, ...]:
    """Open the tools that an agent lists.

    Raises:
        UserError: an unknown tool, a missing requirement of a tool, or the agent neither searches nor calls tools.
    """
    if not agent.card.tools:
        return ()
    if not agent.card.searches:
        raise UserError(f"The agent {agent.spec!r} does not search: tools=[…] has no effect on it.")

    def _retriever(spec: Spec) -> Searcher:
        if not needs_corpus(spec):
            return open_searcher(with_fingerprints(spec, recipe.served), "", home, progress=progress)
        return _open_searcher(spec, agent, recipe, home, opened, progress)

    sources = {name: McpSource(name, server, home, recipe.closed) for name, server in recipe.mcp.items()}
    by_default = parse(agent.card.retriever)
    if READ in agent.card.tools and CORPUS not in agent.card.tools:
        raise UserError(f"{agent.spec}: `read` shows the text around passages of the corpus: list corpus as well.")
    return open_tools(agent.card.tools, ToolSources(lambda: _retriever(by_default), _retriever, sources))


def open_models(
    agent: Agent,
    default: str | None,
    opened: dict[str, Model],
    prices: Mapping[str, Price],
    defaults: Mapping[str, Value | None],
    served: Mapping[str, str] = MappingProxyType({}),
    home: Path | None = None,
) -> dict[str, Model]:
    """Open the agent's models, by role.

    Args:
        agent: the agent.
        default: the model of the role ``model`` if the agent's card names none.
        opened: models that are open already, by their text; those opened here are added.
        prices: the user's price list.
        defaults: parameters for models that leave them open.
        served: as :attr:`Recipe.served`.
        home: as in :func:`ragrounds.models.providers.open_model`.

    Raises:
        UserError: no model is named, or one cannot be opened.
    """
    roles = model_texts(agent, default, defaults)
    for text in roles.values():
        if text not in opened:
            opened[text] = open_model(served.get(text, text), prices, home)
    return {role: opened[text] for role, text in roles.items()}


def model_texts(agent: Agent, default: str | None, defaults: Mapping[str, Value | None]) -> dict[str, str]:
    """Map each role to the canonical text of its model, with `defaults` filled in; empty for a graph with its own
    models.

    Raises:
        UserError: neither the agent's card nor `default` names a model.
    """
    if not kind_of(agent.card).uses_our_models():
        return {}
    texts = agent.card.models if default is None else {"model": default, **agent.card.models}
    if "model" not in texts and not agent.inner:
        raise UserError(
            f"No model was given for {agent.spec!r}. Give one with --model: openai:gpt-4o-mini, or openai:NAME with "
            f"--base-url for your own server; {BASELINE} is the built-in baseline."
            + (" The address comes from OPENAI_BASE_URL." if os.environ.get("OPENAI_BASE_URL") else "")
        )
    return {role: with_defaults(text, defaults) for role, text in texts.items()}


def _open_searcher(
    retriever: Spec,
    agent: Agent,
    recipe: Recipe,
    home: Path,
    opened: dict[tuple[str, str], Searcher],
    progress: Progress | None,
) -> Searcher:
    """Open a retriever over the agent's corpus; equal ones are opened once."""
    corpus = agent.card.corpus or recipe.corpus or ""
    if not corpus and needs_corpus(retriever):
        raise UserError(
            f"The agent {agent.spec!r} searches, but no corpus was given. Give one with --corpus, such as "
            "beir:FOLDER, or `ragrounds index build` one."
        )
    key = (str(retriever), corpus)
    if key not in opened:
        opened[key] = open_searcher(with_fingerprints(retriever, recipe.served), corpus, home, progress=progress)
    return opened[key]


def asked_models(recipe: Recipe) -> list[str]:
    """Return the texts of all models that a recipe's agents call, including their retrievers' embedders on servers.

    Raises:
        UserError: as :func:`open_agents`.
    """
    agents = [agent for text in recipe.agents for agent in open_agent(text).with_inner]
    texts = {text for agent in agents for text in model_texts(agent, recipe.model, recipe.defaults).values()}
    retrievers = [parse(agent.card.retriever) for agent in agents if agent.card.searches]
    return [*sorted(texts), *(text for spec in retrievers for text in embedding_models(spec))]


def agent_identity(opened: OpenedAgent) -> dict[str, object]:
    """Return everything of an agent that a run's results depend on. It is the same on every machine that works on the
    run.
    """
    agent, models, searcher = opened.agent, opened.models, opened.searcher
    card, kind = agent.card, kind_of(agent.card)
    prompts = PromptFolder(card.prompts)
    refining: dict[str, object] = {}
    if "refine" in agent.parameters:  # the stage between search and prompt
        refine_prompts = prompts.digest(catalogue.refining().PROMPTS)
        refining = {"refine_code": catalogue.digest("refining"), "refine_prompts": refine_prompts}
    return {
        "agent": without_addresses(agent.spec) if card.python else agent.spec,
        "graph": card.graph,
        "graph_code": kind.code(),
        "parameters": agent.settled,
        "prompts": prompts.digest(kind.prompts()),
        "models": kind.model_specs({role: model.spec for role, model in sorted(models.items())}),
        "windows": {role: model.window for role, model in sorted(models.items())},
        # This is set for a model that is code, such as the baseline.
        "model_code": {role: code for role, model in sorted(models.items()) if (code := getattr(model, "code", ""))},
        "retriever": searcher.spec if searcher else None,
        "retriever_code": searcher_codes(searcher) if searcher else {},
        "corpus": searcher.corpus if searcher else None,
        "limits": msgspec.to_builtins(agent.caps),
        "question_only": card.question_only,
        "oracle": card.oracle,
        "tier": "journaled" if all(kind_of(part.card).takes_context() for part in agent.with_inner) else "own",
        # The key must match that of stored runs.
        "inner": {
            # The files that a user's system reads are compared separately.
            key: [compared(inner) if is_own(inner := agent_identity(part)) else inner for part in inner_agents]
            for key, inner_agents in opened.inner.items()
        }
        or subagent_identity(agent),
        **refining,
        **({"tools": [tool.identity() for tool in opened.tools]} if opened.tools else {}),
        **kind.identity(),
    }


def subagent_identity(agent: Agent) -> dict[str, object] | None:
    """Return the identity of the agent inside this one, except for what both share: models, retriever and corpus.

    ``None`` if no agent runs inside this one.
    """
    inside = subagent(agent)
    if inside is None:
        return None
    kind = kind_of(inside.card)
    return {
        "agent": inside.spec,
        "graph_code": kind.code(),
        "parameters": inside.settled,
        "prompts": PromptFolder(inside.card.prompts).digest(kind.prompts()),
    }


def fingerprint(identity: Mapping[str, object]) -> str:
    """Hash an identity (SHA-256, hexadecimal)."""
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()


def find_or_start_run(
    store: Store,
    benchmark: Benchmark,
    opened: OpenedAgent,
    epochs: int,
    *,
    new: bool = False,
    run_command: Asked | None = None,
    servers: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    identity: SystemIdentity | None = None,
) -> Run:
    """Return the run of this identity that the store has, unless `new`; otherwise start a new one, in place of one that
    was abandoned before its first attempt.

    A run of a system with its own models is identified by its calls as well as its identity.

    Raises:
        StopRun: the store cannot be written.
    """
    current = identity or _system_identity(benchmark, opened, epochs)
    if is_own(current.identity):
        earlier = find_matching_run(store, current)
    else:
        earlier = store.latest(fingerprint(current.identity))
        earlier = earlier if earlier and not differences(store, earlier, current) else None
    if earlier and not new:
        return earlier
    abandoned = None if new else find_abandoned_run(store, current)
    if abandoned:
        store.remove(abandoned)
    content = dict(current.identity)
    digest, agent = fingerprint(content), opened.agent.spec
    run = Run(
        id=abandoned.id if abandoned else new_run_id(agent, digest, [run.id for run in store.runs()]),
        agent=agent,
        benchmark=benchmark.name,
        questions=benchmark.version,
        count=len(benchmark),
        epochs=epochs,
        fingerprint=digest,
        identity=content,
        created=now(),
        version=__version__,
        asked=run_command,
        servers=_servers_of(servers, opened) if servers else {},
    )
    added = store.add_run(run, benchmark.questions, benchmark.golds)
    if current.reads is not None:
        store.add_rows(read_rows(current.reads.reads(), store.number(added)))
    return added


def _servers_of(servers: Mapping[str, Mapping[str, str]], opened: OpenedAgent) -> dict[str, dict[str, str]]:
    """Return the servers that an agent calls."""

    def asked_by(part: OpenedAgent) -> set[str]:
        """Return the servers of an agent and of the agents inside it."""
        servers_of_agent = {server_of(model.spec) for model in part.models.values()}
        if part.searcher:
            servers_of_agent |= fingerprints_in(parse(part.searcher.spec)).keys()
        return servers_of_agent.union(
            *(asked_by(inner_agent) for inner_agents in part.inner.values() for inner_agent in inner_agents)
        )

    called = asked_by(opened)
    return {server: dict(facts) for server, facts in sorted(servers.items()) if server in called}


def check_same_run(store: Store, run: Run, now: SystemIdentity) -> Run:
    """Return the run if its identity is unchanged.

    Raises:
        UserError: it has changed; the message names the differences.
    """
    if is_own(now.identity):
        differing, same = differing_parts(run, now), True
    else:
        same = run.fingerprint == fingerprint(now.identity)
        plain = msgspec.json.decode(msgspec.json.encode(now.identity))
        differing = [] if same else sorted(k for k in {*plain, *run.identity} if plain.get(k) != run.identity.get(k))
    if differing or not same or differences(store, run, now):
        clauses = [
            *(f"its {part.replace('_', ' ')} changed" for part in differing if part not in PARTS_IN_WORDS),
            *changes(store, run, now),
        ]
        raise UserError(
            f"The run {run.id} cannot be resumed: {'; '.join(join_clauses(clauses)) or 'its identity changed'}. "
            "Its answers are kept; `ragrounds run` with the present settings begins another run."
        )
    return run


async def with_servers(
    recipe: Recipe, died: Callable[[StopRun], None], *, home: Path, tell: Callable[[str], None], exit_stack: ExitStack
) -> Recipe:
    """Start the servers that the recipe's models need, and return the recipe with their addresses for other processes.

    If one process runs everything, this is not needed: a model starts its server at its first call.

    Args:
        recipe: the recipe.
        died: called, in another thread, when a server ends by itself before `exit_stack` is closed.
        home: folder of the logs of these servers.
        tell: called with a message about each server that is started.
        exit_stack: stops the servers when it is closed.

    Raises:
        UserError: a model is invalid, or its server software is not installed.
        StopRun: a server could not be started.
    """
    models = asked_models(recipe)
    if not any(map(starts_server, models)):
        return recipe
    from ragrounds.models.started import give_up, served

    opened = {text: recipe.served.get(text, text) for text in models}
    try:
        joined = await asyncio.to_thread(exit_stack.enter_context, served(opened.values(), home, tell, died))
    except asyncio.CancelledError:
        give_up()
        raise
    return replace(recipe, served={text: joined[served_text] for text, served_text in opened.items()})
