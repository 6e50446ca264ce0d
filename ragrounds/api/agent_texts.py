"""The agents of a run: as texts or Python objects, with the settings of a request, and the recipe that opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ragrounds.agents.agent import open_agent, read_card, with_retriever
from ragrounds.agents.profiles import names_agents, sampled, settled
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.place import HERE, give
from ragrounds.agents.systems.settings import OPTIONS_OF_MODELS, read_table, with_model, with_process, with_tables
from ragrounds.api.aliases import split_alias
from ragrounds.api.run_request import RunArguments
from ragrounds.api.servers import server_defaults
from ragrounds.base.errors import NotReplayed, UserError
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.plan import Recipe
from ragrounds.models.prices import read_prices
from ragrounds.models.providers import BASELINE

T = TypeVar("T")
SAMPLE_AGENTS = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")
"""Agents that are compared on the sample benchmark if none is named."""


def agent_texts(given_agents: object) -> list[tuple[str, str | None]]:
    """Return agents as texts, each with its name for tables, or ``None``.

    Args:
        given_agents: a text, a Python object (a graph, a function: see docs/how-to/own-system.md), several of these, or
            a mapping of names to them.

    Raises:
        UserError: a name is too long.
    """
    names: list[str | None] = []
    if isinstance(given_agents, Mapping):
        names, agents = [str(name) for name in given_agents], list(given_agents.values())
    elif (
        isinstance(given_agents, Iterable)
        and isinstance(given_agents, Sequence | set | frozenset)
        and not isinstance(given_agents, str)
    ):
        agents = list(given_agents)
    else:
        agents = [given_agents]
    objects = [agent for agent in agents if not isinstance(agent, str)]
    object_texts: list[str] = []
    if objects:
        object_texts = give(objects)
    pairs = [split_alias(agent) if isinstance(agent, str) else (object_texts.pop(0), None) for agent in agents]
    return [(text, names[number] if names else alias) for number, (text, alias) in enumerate(pairs)]


def with_settings(request: RunArguments, tell: Callable[[str], None]) -> tuple[RunArguments, Mapping[str, NotReplayed]]:
    """Add the request's settings for users' systems to the agents' texts.

    Args:
        request: what is to be run, and how.
        tell: function that gets a message on options that are ignored for some agents.

    Returns:
        The new request, and the agents that are missing from it, with the error of each: agents whose load-time calls
        are missing from the journal in a replay.

    Raises:
        UserError: an option has no effect on any of the agents, or cannot be parsed; or an object of this process is to
            be run by other processes.
        NotReplayed: the load-time calls of all agents are missing from the journal.
    """
    if not request.agents or not any(
        ":" in text or text.endswith((".py", ".json")) or ".toml" in text for text in request.agents
    ):
        if option := _foreign_option(request):
            raise _option_without_effect(option, request.agents or ("direct",))
        return request, {}
    config, context = read_table(request.config, "--config"), read_table(request.context, "--context")
    missing_agents: dict[str, NotReplayed] = {}
    kinds = _inspect_agents(request.agents, lambda text: kind_of(read_card(parse(text).name)), missing_agents)
    foreign = [text for text, kind in kinds.items() if kind.is_users_system]
    if (option := _foreign_option(request)) and not foreign:
        raise _option_without_effect(option, request.agents)
    local = [text for text in foreign if text.startswith(f"{HERE}:")]
    reasons = {text: kinds[text].reason_in_process() for text in foreign}
    if request.python and foreign and all(reasons.values()):
        raise UserError(
            f"--python has no effect on {foreign[0]}, which is opened in this process: {reasons[foreign[0]]}."
        )
    if local and not request.alone:
        raise UserError(
            f"{local[0]} is an object of this process, which workers cannot use: put it into a module or a file, and "
            "give it as module:NAME or ./FILE.py:NAME."
        )
    if local:
        tell(f"Only this session has the source, so `runs resume` cannot start it: {', '.join(local)}.")
    new_texts = {text: text for text in kinds}
    for text in foreign:
        new_texts[text] = with_tables(text, config, context)
        if not reasons[text]:
            new_texts[text] = with_process(
                new_texts[text], request.python or "", request.in_process, request.share_process
            )
        if request.model is not None and kinds[text].card.model_field:
            new_texts[text] = with_model(new_texts[text], kinds[text].card, request.model)
    kinds = _inspect_agents(new_texts, lambda text: kind_of(open_agent(new_texts[text]).card), missing_agents)
    model_uses = _inspect_agents(kinds, lambda text: kinds[text].uses_our_models(), missing_agents)
    own_models = [text for text, uses_ours in model_uses.items() if not uses_ours]
    foreign_texts = [new_texts[text] for text in own_models]
    set_ = [name for name in OPTIONS_OF_MODELS if getattr(request, name) not in (None, ())]
    without_model_field = [new_texts[text] for text in own_models if not kinds[text].card.model_field]
    option_names = ", ".join(f"--{name.replace('_', '-')}" for name in set_)
    if set_ and without_model_field and len(foreign_texts) == len(model_uses):
        raise UserError(
            f"{option_names} has no effect on {', '.join(without_model_field)}: its own code sets the model. Leave it "
            "out, or set in its "
            'file which field takes a model: model_field = "config.model".'
        )
    if set_ and without_model_field:
        verb = "are" if len(set_) > 1 else "is"
        tell(f"{option_names} {verb} ignored for {', '.join(without_model_field)}: its own code sets the model.")
    if request.corpus and len(foreign_texts) == len(model_uses):
        raise UserError(f"--corpus has no effect on {', '.join(foreign_texts)}: its own code searches. Leave it out.")
    if request.corpus and foreign_texts:
        tell(f"--corpus is ignored for {', '.join(foreign_texts)}: its own code searches.")
    agents = tuple(new_texts[text] for text in request.agents if text not in missing_agents)
    sharing = [new_texts[text] for text, kind in kinds.items() if kind.card.share_process]
    if len(sharing) > 1:
        tell(f"In one process for each folder, so one can slow or fail another: {', '.join(sharing)}.")
    request = replace(request, agents=agents, config={}, context={}, python=None)
    return replace(request, in_process=False, share_process=False), missing_agents


def _inspect_agents(
    texts: Iterable[str], find: Callable[[str], T], missing_agents: dict[str, NotReplayed]
) -> dict[str, T]:
    """Apply `find` to every agent and return the results by text.

    Agents that cannot be replayed are added to `missing_agents`.

    Raises:
        NotReplayed: none of the agents can be replayed.
    """
    results: dict[str, T] = {}
    for text in texts:
        try:
            results[text] = find(text)
        except NotReplayed as error:
            missing_agents[text] = error
    if missing_agents and not results:
        raise next(iter(missing_agents.values()))
    return results


def _foreign_option(request: RunArguments) -> str:
    """Return an option that is set and applies only to users' systems; empty if none is set."""
    set_ = (name for name in ("config", "context", "python", "in_process", "share_process") if getattr(request, name))
    return next((f"--{name.replace('_', '-')}" for name in set_), "")


def _option_without_effect(option: str, agents: Sequence[str]) -> UserError:
    return UserError(
        f"{option} is for your own systems, such as ./mine.py:graph, and has no effect on {', '.join(agents)}. "
        "Built-in agents are set in their text: direct_cot[key=value]. See `ragrounds list agents`."
    )


def _searching_with(retriever: str, agents: Sequence[str]) -> tuple[str, ...]:
    """Add a retriever to the texts of agents that search and name none.

    Raises:
        UserError: no agent changes by it.
    """
    new_texts = tuple(with_retriever(agent, retriever) for agent in agents)
    if new_texts == tuple(agents):
        raise UserError(
            f"The retriever {retriever} changes nothing: {', '.join(agents)} {'do' if len(agents) > 1 else 'does'} "
            "not search, or has its own retriever. Leave it out, or add an agent that searches, such as vanilla_rag."
        )
    return new_texts


def recipe_of(request: RunArguments, loaded: Benchmark) -> Recipe:
    """Return the recipe from which a request's agents are opened; the settings complete the request."""
    settings = request.used_settings
    server = server_defaults(request.base_url, request.alias, settings)
    url = server["base_url"]
    sampling = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_answer_tokens,
    }
    agents = request.agents or (SAMPLE_AGENTS if loaded.is_sample else ("direct_cot",))
    if request.profile is not None and not request.agents:
        names_agents(request.profile, agents)
    if request.retriever is not None:
        agents = _searching_with(request.retriever, agents)
    model = request.model or settings.model or (BASELINE if loaded.is_sample and not url else None)
    if model:
        model = sampled(model, agents, request.profile, [key for key, value in sampling.items() if value is not None])
    return Recipe(
        agents=tuple(settled(agent, request.profile, model) for agent in agents),
        model=model,
        corpus=request.corpus or loaded.own_corpus,
        prices=read_prices(settings.home),
        defaults={
            **server,
            **sampling,
            "timeout": request.timeout,
            "rpm": request.rpm,
            "tpm": request.tpm,
            "slots": request.in_flight,
        },
        mcp=settings.mcp,
        closed=request.journal == "replay",
    )
