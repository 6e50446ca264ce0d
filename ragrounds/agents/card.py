"""Content of an agent's file: graph or system, models, tools, parameters and limits, as data."""

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
    """US dollars, at uncached prices."""
    seconds: float | None = None

    def words(self) -> str:
        """Describe the caps: ``300 calls (of models, searches and tools), 2,000,000 tokens and 2 h``."""
        parts = [] if self.calls is None else [f"{self.calls:,} calls (of models, searches and tools)"]
        parts += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        parts += [] if self.cost is None else [f"${self.cost:g}"]
        if self.seconds is not None:
            parts.append(f"{self.seconds / 3600:g} h" if self.seconds % 3600 == 0 else f"{self.seconds:g} s")
        return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1] if parts else ""]))


DEFAULT_CAPS = Limits(calls=300, tokens=2_000_000, seconds=7200.0)
"""Caps of an attempt that its agent does not set.

With its defaults, no shipped strategy makes 170 calls for a question. These caps end loops that a model keeps up.
"""


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of an agent's TOML file."""

    graph: str = ""
    """Name of a built-in graph, or import path of a user's system."""
    system: str = ""
    """Import path of a user's system, ``./mine.py:graph``: a synonym of `graph`."""
    summary: str = ""
    group: str = ""
    """Heading in the list of agents, by how they search. Not part of the agent's identity."""
    alias: str = field(default="", name="as")
    """Name in tables and figures, ``as = "GPT-3.5 + RAG"``. If empty, the agent's text is used. Not part of its
    identity.
    """
    source: str = ""
    paper: str = ""
    """Reference that a report cites: ``AUTHORS (YEAR). TITLE. arXiv ID``. Not part of the agent's identity."""
    searches: bool = False
    question_only: bool = True
    """True if the options are hidden from all searches (MIRAGE, Section 3.1). False deviates from it."""
    guard: bool = True
    """True if searches for a question exclude the documents that the benchmark's ``guard.jsonl`` lists for it."""
    guard_near: float = 0.0
    """Share of the question's own wording, 0 to 1, from which on a passage is excluded from searches. 0 excludes
    none.
    """
    oracle: bool = False
    """True if this agent receives the gold documents. No other agent ever does."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    switches: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Parameters that deviate from the agent's default behaviour.

    A switch with its default is not part of a run's identity, so that a new switch does not change existing runs.
    """
    profile: str | None = None
    """A paper's profile (:mod:`ragrounds.agents.profile`). Values of the file take precedence over it."""
    input: dict[str, str] = field(default_factory=dict)
    """For a user's system: key of its state, or argument → field that it receives (see
    :data:`ragrounds.recorder.answers.FIELDS`).
    """
    output: str = ""
    """For a user's system: key that contains the answer."""
    choice: str = ""
    """For a user's system: key that contains the letter of an option, ``KEY.FIELD`` for a nested one."""
    nests: bool = True
    """For a user's system: True if graphs run inside its nodes."""
    config: dict[str, object] = field(default_factory=dict)
    """For a user's system: configuration of its run, LangGraph's ``configurable``."""
    context: dict[str, object] = field(default_factory=dict)
    """For a user's system: its runtime context."""
    on_interrupt: str = ""
    """For a user's system: answer if it asks a person, a text or ``module:function``."""
    python: str = ""
    """For a user's system: interpreter of its process, a path or a name. If empty, ragrounds' interpreter is used."""
    in_process: bool = False
    """For a user's system: True if it runs in ragrounds' process, for breakpoints and coverage, not in its own."""
    share_process: bool = False
    """For a user's system: True if it shares one process with the other such agents of its folder, to save memory."""
    model_field: str = ""
    """For a user's system: destination of ``--model``, ``config.KEY`` or ``context.KEY``. Empty if it has no
    destination.
    """
    clock: Literal["", "real"] = ""
    """For a user's system: ``real`` gives its own files the real clock and new random values each time.

    If empty, the recorded values are returned when the same question is repeated.
    """
    record: tuple[str, ...] = ()
    """For a user's system: prefixes of addresses whose calls are recorded and replayed although they are not model
    calls of a known format, such as those of a web search.
    """
    reads: tuple[str, ...] = ()
    """For a user's system: files and folders that it reads by code outside Python, such as an index. Other reads are
    noticed.
    """
    endpoint: EndpointCard | None = None
    """An endpoint that answers the questions, instead of a graph (:mod:`ragrounds.agents.systems.endpoint`)."""
    models: dict[str, str] = field(default_factory=dict)
    retriever: str = DEFAULT_RETRIEVER
    corpus: str | None = None
    tools: tuple[str, ...] = ()
    """Tools for searching and reading, in this order (:mod:`ragrounds.tools.agent_tools`): ``corpus``, ``read``, a
    retriever such as ``web[provider=tavily]`` or ``pubmed``, ``fetch``, ``mcp:NAME``. If empty, only the corpus.
    """
    prompts: str | None = None
    """Folder of the user's own prompts, which precede the package's."""
    limits: Limits = Limits()
