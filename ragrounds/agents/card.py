"""An agent's file: graph or system, models, tools, parameters and limits, as data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from ragrounds.agents.systems.endpoint_card import EndpointCard

DEFAULT_RETRIEVER = "bm25"


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An attempt's caps. Reaching one ends the attempt as ``capped``, scored on what it had."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """Dollars, at uncached prices."""
    seconds: float | None = None

    def words(self) -> str:
        """The caps in words: ``300 calls (of models, searches and tools), 2,000,000 tokens and 2 h``."""
        said = [] if self.calls is None else [f"{self.calls:,} calls (of models, searches and tools)"]
        said += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        said += [] if self.cost is None else [f"${self.cost:g}"]
        if self.seconds is not None:
            said.append(f"{self.seconds / 3600:g} h" if self.seconds % 3600 == 0 else f"{self.seconds:g} s")
        return " and ".join(filter(None, [", ".join(said[:-1]), said[-1] if said else ""]))


DEFAULT_CAPS = Limits(calls=300, tokens=2_000_000, seconds=7200.0)
"""What an attempt may use where its agent does not say. No strategy that ships makes 170 calls for a question by its
defaults: these are for loops that a model keeps up."""


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent's TOML file."""

    graph: str = ""
    """A built-in graph by name, or the place of a system of the user's own."""
    system: str = ""
    """The place of a system of the user's own, ``./mine.py:graph``: another word for `graph`."""
    summary: str = ""
    alias: str = field(default="", name="as")
    """What it is called in tables and pictures, ``as = "GPT-3.5 + RAG"``; empty: by its text. No part of its
    identity."""
    source: str = ""
    paper: str = ""
    """Reference that a report cites: ``AUTHORS (YEAR). TITLE. arXiv ID``. No part of the agent's identity."""
    searches: bool = False
    question_only: bool = True
    """The options are hidden from everything that searches (MIRAGE, Section 3.1). ``false`` is a departure from it."""
    guard: bool = True
    """Documents that the benchmark's ``guard.jsonl`` keeps from a question are found by no search for it."""
    guard_near: float = 0.0
    """Passages that hold this share of the question's own wording, 0 to 1, are found by no search for it; 0: all may
    be."""
    oracle: bool = False
    """This agent is given the gold documents. No other ever is."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    switches: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Parameters that depart from what the agent does by default. One with its default is no part of a run's identity,
    so that a new switch makes no run another one."""
    profile: str | None = None
    """A paper's profile (:mod:`ragrounds.agents.profile`). What the file itself sets comes before it."""
    input: dict[str, str] = field(default_factory=dict)
    """Of a system of the user's own: key of its state, or argument → what it is given (see
    :data:`ragrounds.recorder.answers.FIELDS`)."""
    output: str = ""
    """Of a system of the user's own: the key that holds the answer."""
    choice: str = ""
    """Of a system of the user's own: the key that holds the letter of an option, ``KEY.FIELD`` for one inside it."""
    nests: bool = True
    """Of a system of the user's own: graphs run inside its nodes."""
    config: dict[str, object] = field(default_factory=dict)
    """Of a system of the user's own: what its run is configured with, LangGraph's ``configurable``."""
    context: dict[str, object] = field(default_factory=dict)
    """Of a system of the user's own: its runtime context."""
    on_interrupt: str = ""
    """Of a system of the user's own: what is answered where it asks a person, a text or ``module:function``."""
    python: str = ""
    """Of a system of the user's own: the interpreter of its process, a path or a name; empty: ours."""
    in_process: bool = False
    """Of a system of the user's own: it runs in our process, for breakpoints and coverage, and in none of its own."""
    model_field: str = ""
    """Of a system of the user's own: where ``--model`` goes, ``config.KEY`` or ``context.KEY``. Empty: nowhere."""
    clock: Literal["", "real"] = ""
    """Of a system of the user's own: ``real`` has its own files draw from clock and chance anew each time. Empty: what
    they drew is given back where the same is asked again."""
    record: tuple[str, ...] = ()
    """Of a system of the user's own: how addresses begin whose calls are recorded and replayed though they are no model
    calls of a known form, such as those of a web search."""
    reads: tuple[str, ...] = ()
    """Of a system of the user's own: files and folders that it reads by code that is not Python, such as an index. All
    others are noticed."""
    endpoint: EndpointCard | None = None
    """An address that answers the questions, in place of a graph (:mod:`ragrounds.agents.systems.endpoint`)."""
    models: dict[str, str] = field(default_factory=dict)
    retriever: str = DEFAULT_RETRIEVER
    corpus: str | None = None
    tools: tuple[str, ...] = ()
    """What it searches and reads with, in this order (:mod:`ragrounds.tools.agent_tools`): ``corpus``, ``read``, a
    retriever such as ``web[provider=tavily]`` or ``pubmed``, ``fetch``, ``mcp:NAME``. Empty: its corpus alone."""
    prompts: str | None = None
    """A folder of the user's own prompts, read before the package's."""
    limits: Limits = Limits()
