"""A user's own graph: ``./mine.py:build`` or ``package.module:build``, a function giving a `StateGraph` or a compiled
graph.

Three tiers, by what the graph takes:

* ``journaled``: its context schema is :class:`ragrounds.contracts.Context`. Everything asked through the context is
  recorded, replayed, limited and costed, as in the built-in graphs.
* ``observed``: LangChain models of its own. They are traced, costed and counted against the caps through callbacks, but
  nothing is recorded: a repeated run asks, and pays, again.
* ``timed``: clients of its own. Only the time is known; cost and tokens are unknown, never 0.

The last two look alike from outside: a graph that does not take the context is ``observed`` where calls were seen and
``timed`` in an attempt where none was.

The function says by :func:`agent` what an agent's file says otherwise; without it the keys are found in the state.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from ragrounds.contracts import Context
from ragrounds.digests import code_digest, file_digest
from ragrounds.errors import UserError, nearest
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.plugins import imported_module
from ragrounds.records import Question

F = TypeVar("F", bound=Callable[[], object])
Tier = Literal["journaled", "own"]
FIELDS = ("question", "stem", "options", "prompt", "messages", "language")
"""What a graph's input can be given: the question's text; the same as a user's message; its options as lines; text and
options as one text; that as a user's message; the language."""
SHOWING = frozenset({"options", "prompt", "messages"})
"""Those that show the options."""
SUMMARY = "A graph of the user's own."
_ROOMS = ("ragrounds.graphs",)
_MARK = "__ragrounds_agent__"


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a graph's author says of it; the same fields stand in an agent's file."""

    summary: str = SUMMARY
    searches: bool = False
    question_only: bool = True
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    input: dict[str, str] = field(default_factory=dict)
    """Key of the state → one of :data:`FIELDS`."""
    output: str = ""
    """Key of the state that holds the answer: a text, or messages of which the last one counts."""
    nests: bool = True
    """Other graphs run inside its nodes, whose steps are to be seen too. ``False`` saves each attempt a quarter of
    LangGraph's processor time."""


def agent(
    *,
    summary: str = SUMMARY,
    searches: bool = False,
    question_only: bool = True,
    parameters: Mapping[str, bool | int | float | str] | None = None,
    input: Mapping[str, str] | None = None,
    output: str = "",
    nests: bool = True,
) -> Callable[[F], F]:
    """Say what an agent is, above the function that builds its graph. See :class:`About`."""

    def mark(build: F) -> F:
        """Attach what is said to the function."""
        about = About(
            summary=summary,
            searches=searches,
            question_only=question_only,
            parameters=dict(parameters or {}),
            input=dict(input or {}),
            output=output,
            nests=nests,
        )
        setattr(build, _MARK, about)
        return build

    return mark


def is_user_graph(name: str) -> bool:
    """Say whether a graph's name is a place in a file or in an installed module: ``PATH.py:FUNCTION``,
    ``package.module:FUNCTION``."""
    place, colon, function = name.rpartition(":")
    return bool(colon) and function.isidentifier() and (place.endswith(".py") or is_module(name))


def is_module(name: str) -> bool:
    """Say whether the graph of such a name stands in a module, rather than in a file that is named by its path."""
    parts = name.rpartition(":")[0].split(".")
    return parts[-1] != "py" and all(part.isidentifier() for part in parts)


def about(name: str) -> About:
    """Give what the function's decorator says, or the defaults."""
    found: About = getattr(_function(name), _MARK, About())
    return found


def construct(name: str) -> Any:
    """Call the user's function.

    Raises:
        UserError: no such file or function, the file does not load, or what the function gives is no graph.
    """
    try:
        graph = _function(name)()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}: building the graph failed: {type(error).__name__}: {error}") from error
    if not hasattr(graph, "compile") and not hasattr(graph, "astream"):
        raise UserError(f"{name} gave {type(graph).__name__}; expected a StateGraph or a compiled graph.")
    return graph


def digest(name: str) -> str:
    """Hash what the graph does: its file or module, and what that imports from its own folder or package, and from the
    built-in graphs."""
    if not is_module(name):
        return file_digest(_path(name), within=_ROOMS)
    place = name.rpartition(":")[0]
    room = ".".join(place.split(".")[:2])
    return code_digest(_load(name).__name__, within=(*_ROOMS, *([room] if room.startswith("ragrounds.") else ())))


def tier(name: str) -> Tier:
    """Say whether the graph takes the context (``journaled``) or not (``own``).

    Raises:
        UserError: the graph cannot be built.
    """
    built = construct(name)
    builder = getattr(built, "builder", built)
    return "journaled" if getattr(builder, "context_schema", None) is Context else "own"


def prompts(name: str) -> tuple[str, ...]:
    """``PROMPTS`` of the file: names of prompts that the graph renders through the context."""
    return tuple(getattr(_load(name), "PROMPTS", ()))


class UserGraph(Struct, frozen=True):
    """A user's graph, ready to run."""

    graph: Any
    tier: Tier
    input: dict[str, str]
    output: str
    nests: bool = True
    settled: bool = False
    """The last write of `output` is the answer: no reducer adds to what stood there."""

    @property
    def shows_options(self) -> bool:
        """Whether the input holds the options. Then nothing may be searched for under question-only retrieval: a graph
        that takes the context reads them from there, in its answering node."""
        return bool(SHOWING & set(self.input.values()))

    def feed(self, question: Question) -> dict[str, object]:
        """Make the graph's input for a question."""
        options = options_block(question.options)
        prompt = f"{question.text}\n\n{options}".strip()
        values: dict[str, object] = {
            "question": question.text,
            "stem": [{"role": "user", "content": question.text}],
            "options": options,
            "prompt": prompt,
            "messages": [{"role": "user", "content": prompt}],
            "language": question.language,
        }
        return {key: values[field] for key, field in self.input.items()}

    def read(self, state: object) -> str:
        """Read the answer in the last state: a text, or the last message's text."""
        value = state.get(self.output) if isinstance(state, Mapping) else getattr(state, self.output, None)
        if isinstance(value, list):
            value = value[-1] if value else ""
        if isinstance(value, dict):
            value = value.get("content", "")
        return str(value if isinstance(value, str) else getattr(value, "text", "" if value is None else value))


def open_user_graph(name: str, input: Mapping[str, str], output: str, nests: bool = True) -> UserGraph:
    """Compile a user's graph and settle its keys.

    Raises:
        UserError: a key is not in the graph's state, or no key can be guessed.
    """
    from langgraph.channels import LastValue

    built = construct(name)
    graph = built if hasattr(built, "astream") else built.compile()
    builder = getattr(graph, "builder", built)
    keys = [key for key in getattr(builder, "channels", {}) if not key.startswith(("__", "branch:"))]
    taken: Tier = "journaled" if getattr(builder, "context_schema", None) is Context else "own"
    feeds = dict(input) or _guessed(keys, taken)
    answer = output or next((key for key in ("answer", "output", "messages") if key in keys), "")
    if not answer:
        raise UserError(f"{name}: which key holds the answer? Say output=… in the decorator or the agent's file.")
    for key in (*feeds, answer):
        if keys and key not in keys:
            raise UserError(f"{name}: the state has no key {key!r}.{nearest(key, keys)} It has: {', '.join(keys)}.")
    for given in feeds.values():
        if given not in FIELDS:
            raise UserError(f"{name}: nothing is called {given!r} here.{nearest(given, FIELDS)} Known: {FIELDS}.")
    settled = isinstance(getattr(builder, "channels", {}).get(answer), LastValue)
    return UserGraph(graph, taken, feeds, answer, nests, settled)


def _guessed(keys: list[str], tier: Tier) -> dict[str, str]:
    """By the usual names. A graph that takes the context finds the options there."""
    if "question" in keys:
        usual = ("question", "language") if tier == "journaled" else ("question", "options", "language")
        return {key: key for key in usual if key in keys}
    return {"messages": "stem" if tier == "journaled" else "messages"} if "messages" in keys else {}


_EARLIER_NAMES = {"own": "user_graph", "answering": "answer_prompts"}
"""Modules of this folder that users' files import → what they are called now."""


def _load(name: str) -> ModuleType:
    for earlier, module in _EARLIER_NAMES.items():
        sys.modules.setdefault(f"ragrounds.graphs.{earlier}", importlib.import_module(f"ragrounds.graphs.{module}"))
    return imported_module(name.rpartition(":")[0])


def _path(name: str) -> Path:
    path = Path(name.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} (from {name!r}). Expected PATH.py:FUNCTION.")
    return path.resolve()


def named_object(name: str) -> object:
    """What stands in the module under the name: the function that gives the graph, or an agent's card.

    Raises:
        UserError: there is no such module or name, or the module fails.
    """
    module = _load(name)
    wanted = name.rpartition(":")[2]
    if not hasattr(module, wanted):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{name}: the file has no function {wanted!r}.{nearest(wanted, known)}")
    return getattr(module, wanted)


def _function(name: str) -> Callable[[], object]:
    found = named_object(name)
    if not callable(found):
        raise UserError(f"{name} is {type(found).__name__}; expected a function that gives a graph.")
    function: Callable[[], object] = found
    return function
