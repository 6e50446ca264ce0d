"""A scripted model, a small shelf of passages, and `play`: one question through the real replay, journal and store."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ragrounds.agents.agent import Agent, open_agent
from ragrounds.base.contracts import Model, Request
from ragrounds.base.records import Attempt, Called, Fault, Gold, Noted, Passage, Question, Reply, Run, Usage
from ragrounds.evals.engine.plan import OpenedAgent, PlannedRun
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import node_path
from ragrounds.models.faults import CallFailed
from ragrounds.tools.agent_tools import AgentTool

OPTIONS = {"A": "Warfarin zqa", "B": "Heparin zqb", "C": "Aspirin zqc"}
"""Each holds a word that stands nowhere else: wherever it turns up, the options were shown."""
CHOICE = Question(id="q/1", benchmark="test/choice", text="Which drug is given first?", options=OPTIONS)
LONG = Question(id="q/2", benchmark="test/long", text="What is given first, and why?", kind="long")
ANSWER = '{"step_by_step_thinking": "…", "answer_choice": "B"}'
_PLAYS = itertools.count()
Script = Sequence[str | Reply] | Callable[[Request], str | Reply]


class Scripted:
    """A model (contract: Model) whose replies are a list, used up one by one, or a function of the request."""

    spec = "scripted:model"

    def __init__(self, script: Script, *, window: int | None = None, continues: str = "prefix") -> None:
        self.script = script if callable(script) else list(script)
        self.window = window
        self.continues = continues
        self.requests: list[Request] = []

    def count(self, text: str) -> int:
        return len(text.split())

    def cut(self, text: str, tokens: int, /) -> str:
        words = re.findall(r"\s*\S+", text)
        return "".join(words[: max(0, tokens)])

    def price(self, reply: Reply) -> float | None:
        return 0.001

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        self.requests.append(request)
        if callable(self.script):
            said = self.script(request)
        elif self.script:
            said = self.script.pop(0)
        else:
            raise CallFailed("script", "the script has no reply left")
        if isinstance(said, Reply):
            return said
        asked = sum(len(message.content) for message in request.messages)
        usage = Usage(input=max(10, asked // 100), output=max(5, len(said) // 100))
        return Reply(text=said, usage=usage)

    async def close(self) -> None: ...


@dataclass
class Shelf:
    """A searcher (contract: Searcher) that finds its first k passages for any query, or nothing for `barren` ones."""

    passages: list[Passage] = field(default_factory=lambda: [passage(number) for number in range(1, 6)])
    barren: tuple[str, ...] = ()
    spec: str = "shelf"
    corpus: str = "shelf@1"
    queries: list[str] = field(default_factory=list)

    async def search(self, query: str, k: int) -> list[Passage]:
        self.queries.append(query)
        return [] if query in self.barren else self.passages[:k]

    def document(self, id: str) -> list[Passage]:
        return [passage for passage in self.passages if passage.document == id]


def passage(number: int, text: str = "") -> Passage:
    text = text or f"Text of passage {number}."
    return Passage(
        id=f"p{number}", document=f"d{number}", title=f"Title {number}", text=text, corpus="shelf@1", rank=number
    )


@dataclass
class Played:
    """What the last of some attempts did."""

    attempts: list[Attempt]
    model: Scripted
    reader: Scripted | None
    shelf: Shelf
    made: int
    reused: int

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]

    @property
    def each(self) -> list[Played]:
        """Return every attempt as if it were the last."""
        return [dataclasses.replace(self, attempts=[attempt]) for attempt in self.attempts]

    @property
    def nodes(self) -> list[str]:
        return node_path(self.attempt.events)

    @property
    def notes(self) -> list[str]:
        return [event.what for event in self.attempt.events if isinstance(event, Noted)]

    @property
    def calls(self) -> list[str]:
        """Kind, role and node of every call: ``model answering@reason``."""
        return [
            f"{event.call.kind} {event.call.role}@{event.call.node}"
            for event in self.attempt.events
            if isinstance(event, Called)
        ]

    def shown(self, number: int) -> str:
        """All that the model was sent in its request `number`, from 0."""
        return text_of(self.model.requests[number])


def text_of(request: Request) -> str:
    return "\n".join(message.content for message in request.messages) + request.prefix


async def play(
    agents: str | Sequence[str],
    script: Script,
    question: Question = CHOICE,
    *,
    reader: Script | None = None,
    window: int | None = None,
    continues: str = "prefix",
    shelf: Shelf | None = None,
    gold: Iterable[str] = (),
    opened: Model | None = None,
    tools: Sequence[AgentTool] = (),
    questions: Sequence[Question] = (),
) -> Played:
    """Run `question` through each agent in turn (one journal for all) and give what the last one did. `opened` is a
    model in place of the script. With `questions`, each agent answers these one by one in place of `question`."""
    shelf = shelf or Shelf()
    model = Scripted(script, window=window, continues=continues)
    reading = Scripted(reader, window=window) if reader is not None else None
    if reading:
        reading.spec = "scripted:reader"
    models: dict[str, Model] = {"model": opened or model, **({"reader": reading} if reading else {})}
    questions = questions or [question]
    documents = tuple(gold)
    golds = {
        question.id: Gold(question_id=question.id, answer="SECRET-GOLD", documents=documents) for question in questions
    }
    attempts: list[Attempt] = []
    play = next(_PLAYS)
    texts = [agents] if isinstance(agents, str) else list(agents)
    store = _store(play if opened or any(":" in text or "/" in text for text in texts) else -1)
    for one in (model, reading, shelf):
        if one is not None:
            one.spec += f"[play={play}]"  # no play finds the calls of another one
    with contextlib.closing(StoreJournal(store)) as journal:
        for number, text in enumerate(texts):
            agent = open_agent(text)
            run = Run(
                id=f"run{play}-{number}",
                agent=agent.spec,
                benchmark=question.benchmark,
                questions="hash",
                count=len(questions),
                epochs=1,
                fingerprint=f"{play}-{number}",
                identity={},
                created=0.0,
            )
            store.add_run(run, questions, golds)
            outer = opened_with(agent, models, shelf, tools)
            planned = PlannedRun(agent, models, outer.searcher, outer.tools, outer.inner, run=run)
            runs = ReplayedRuns(store, journal, [planned], lambda question: ())
            await replay(runs, questions, golds, concurrency=1)
            by_question = {attempt.question_id: attempt for attempt in store.attempts(run)}
            attempts += [by_question.pop(question.id) for question in questions]
            assert not by_question, "every attempt ends with exactly one status"
        made, reused = journal.calls_made, journal.reused
    return Played(attempts, model, reading, shelf, made, reused)


@cache
def _store(number: int) -> Store:
    """One store for all plays of a process: to open one takes as long as to play. One of its own for a real model
    and for a system of a file, whose calls would be found again at another server on the same port."""
    home = tempfile.TemporaryDirectory()
    atexit.register(home.cleanup)
    store = Store(Path(home.name))
    atexit.register(store.close)
    return store


def opened_with(agent: Agent, models: dict[str, Model], shelf: Shelf, tools: Sequence[AgentTool]) -> OpenedAgent:
    """An agent and all inside it, with these models and this shelf."""
    inner = {key: tuple(opened_with(one, models, shelf, tools) for one in some) for key, some in agent.inner.items()}
    return OpenedAgent(agent, models, shelf if agent.card.searches else None, tuple(tools), inner)
