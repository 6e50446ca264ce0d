"""The agents of a run, as they are given: texts, or Python objects; and what is set for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ragrounds.agents.agent import open_agent, read_card, with_retriever
from ragrounds.agents.systems import asks_our_models, is_foreign
from ragrounds.agents.systems.place import HERE, give
from ragrounds.agents.systems.process_choice import reason_here
from ragrounds.agents.systems.settings import read_table, with_model, with_process, with_tables
from ragrounds.api.aliases import split_alias
from ragrounds.api.run_request import RunArguments
from ragrounds.base.errors import NotReplayed, UserError
from ragrounds.base.specs import parse

T = TypeVar("T")
_OF_MODELS = ("model", "base_url", "alias", "temperature", "top_p", "max_answer_tokens")
"""What is set for the models of agents: it has no effect on a system that brings its own."""


def agent_texts(given: object) -> list[tuple[str, str | None]]:
    """Agents as texts, each with the name it is given for tables, or ``None``.

    Args:
        given: a text, a Python object (a graph, a function: see docs/how-to/own-system.md), several of these, or a
            mapping of names to them.

    Raises:
        UserError: a name that is too long.
    """
    names: list[str | None] = []
    if isinstance(given, Mapping):
        names, each = [str(name) for name in given], list(given.values())
    elif isinstance(given, Iterable) and isinstance(given, Sequence | set | frozenset) and not isinstance(given, str):
        each = list(given)
    else:
        each = [given]
    objects = [one for one in each if not isinstance(one, str)]
    places: list[str] = []
    if objects:
        places = give(objects)
    pairs = [split_alias(one) if isinstance(one, str) else (places.pop(0), None) for one in each]
    return [(text, names[number] if names else alias) for number, (text, alias) in enumerate(pairs)]


def asks_ours(agent: str) -> bool:
    """Whether an agent asks the models that ragrounds is given: every one that ships does, and a system of one's own
    that takes its context."""
    return asks_our_models(open_agent(agent).card)


def with_settings(request: RunArguments, tell: Callable[[str], None]) -> tuple[RunArguments, Mapping[str, NotReplayed]]:
    """A request whose agents' texts hold what it sets for systems of the user's own; and the agents that it is without,
    as a replay does not hold what they ask while they are opened: the text that was given → why.

    Args:
        request: what is to be run, and how.
        tell: gets what is ignored for which agents.

    Raises:
        UserError: something is set that has no effect on any of the agents, or of another form; or an object of this
            process is to be run by others.
        NotReplayed: a replay does not hold what the agents ask while they are opened, and none is left.
    """
    if not request.agents or not any(
        ":" in text or text.endswith((".py", ".json")) or ".toml" in text for text in request.agents
    ):
        if option := _of_own(request):
            raise _for_nobody(option, request.agents or ("direct",))
        return request, {}
    config, context = read_table(request.config, "--config"), read_table(request.context, "--context")
    missed: dict[str, NotReplayed] = {}
    cards = _held(request.agents, lambda text: read_card(parse(text).name), missed)
    foreign = [text for text, card in cards.items() if is_foreign(card)]
    if (option := _of_own(request)) and not foreign:
        raise _for_nobody(option, request.agents)
    here = [text for text in foreign if text.startswith(f"{HERE}:")]
    if request.python and foreign and all(map(reason_here, (cards[text] for text in foreign))):
        why = reason_here(cards[foreign[0]])
        raise UserError(f"--python has no effect on {foreign[0]}, which is opened in this process: {why}.")
    if here and not request.alone:
        raise UserError(
            f"{here[0]} is an object of this process, which workers cannot use: put it into a module or a file, and "
            "give it as module:NAME or ./FILE.py:NAME."
        )
    if here:
        tell(f"Only this session has the source, so `runs resume` cannot start it: {', '.join(here)}.")
    made = {}
    for text, card in cards.items():
        made[text] = with_tables(text, config, context) if text in foreign else text
        if text in foreign and not reason_here(card):
            made[text] = with_process(made[text], request.python or "", request.in_process)
        if text in foreign and request.model is not None and card.model_field:
            made[text] = with_model(made[text], card, request.model)
    cards = _held(made, lambda text: open_agent(made[text]).card, missed)
    asks = _held(cards, lambda text: asks_our_models(cards[text]), missed)
    opened = {made[text]: cards[text] for text in asks}
    own = [made[text] for text, ours in asks.items() if not ours]
    set_ = [name for name in _OF_MODELS if getattr(request, name) not in (None, ())]
    apart = [text for text in own if not opened[text].model_field]
    said = ", ".join(f"--{name.replace('_', '-')}" for name in set_)
    if set_ and apart and len(own) == len(opened):
        raise UserError(
            f"{said} has no effect on {', '.join(apart)}: its own code sets the model. Leave it out, or set in its "
            'file which field takes a model: model_field = "config.model".'
        )
    if set_ and apart:
        verb = "are" if len(set_) > 1 else "is"
        tell(f"{said} {verb} ignored for {', '.join(apart)}: its own code sets the model.")
    if request.corpus and len(own) == len(opened):
        raise UserError(f"--corpus has no effect on {', '.join(own)}: its own code searches. Leave it out.")
    if request.corpus and own:
        tell(f"--corpus is ignored for {', '.join(own)}: its own code searches.")
    agents = tuple(made[text] for text in request.agents if text not in missed)
    return replace(request, agents=agents, config={}, context={}, python=None, in_process=False), missed


def _held(texts: Iterable[str], find: Callable[[str], T], missed: dict[str, NotReplayed]) -> dict[str, T]:
    """What is found of each agent, which opens it; those that a replay misses are kept apart in `missed`.

    Raises:
        NotReplayed: it misses all of them.
    """
    found: dict[str, T] = {}
    for text in texts:
        try:
            found[text] = find(text)
        except NotReplayed as why:
            missed[text] = why
    if missed and not found:
        raise next(iter(missed.values()))
    return found


def _of_own(request: RunArguments) -> str:
    """An option that is set and is for systems of one's own; empty: none is."""
    set_ = (name for name in ("config", "context", "python", "in_process") if getattr(request, name))
    return next((f"--{name.replace('_', '-')}" for name in set_), "")


def _for_nobody(option: str, agents: Sequence[str]) -> UserError:
    return UserError(
        f"{option} is for your own systems, such as ./mine.py:graph, and has no effect on {', '.join(agents)}. "
        "Built-in agents are set in their text: direct_cot[key=value]. See `ragrounds list agents`."
    )


def searching_with(retriever: str, agents: Sequence[str]) -> tuple[str, ...]:
    """Agents as text, with a retriever where they search and name none.

    Raises:
        UserError: none of them does.
    """
    made = tuple(with_retriever(agent, retriever) for agent in agents)
    if made == tuple(agents):
        raise UserError(
            f"The retriever {retriever} changes nothing: {', '.join(agents)} {'do' if len(agents) > 1 else 'does'} "
            "not search, or has its own retriever. Leave it out, or add an agent that searches, such as vanilla_rag."
        )
    return made
