"""Identity by content: changed code never meets an old result, and nobody pays again for a comment or a release.

Everything runs as a user would run it: the command line in processes of its own, additions that are installed beside
ragrounds, a real model server on loopback that counts what it is asked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragrounds.base.contracts import Entry
from ragrounds.base.records import Passage, Query, Question, Reply, Usage
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.prompts.loader import PromptFolder

PACKAGE = "somebodys_additions"
RETRIEVER = """
from ragrounds.base.specs import Spec
from ragrounds.tools.retriever import Retriever
from {package}.order import ordered


class Own:
    spec = "own"

    def __init__(self, inside):
        self.inside, self.corpus = inside, inside.corpus

    async def search(self, query, k):
        return ordered(query, await self.inside.search(query, k))


OWN = Retriever(
    name="own",
    summary="BM25, in an order of its own.",
    example="own",
    open=lambda spec, corpora: Own(corpora.searcher(Spec("bm25"))),
)
"""
BEST_FIRST = """
def ordered(query, found):
    return found
"""
WORST_FIRST = """
def ordered(query, found):
    return found[::-1] if len(query) % 2 else found
"""
SCORER = """
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.base import ScorerRecord


class Brief(ScorerRecord, frozen=True, kw_only=True):
    name: str = "brief"
    summary: str = "share of answers of at most so many letters"
    method: str = "the share of brief answers"
    kinds: tuple = ("choice",)

    def score(self, attempt, question, gold):
        return self.scored(attempt, float(len(attempt.text) <= 0), read_long(attempt))


BRIEF = Brief()
"""
GRAPH = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from helper import words
from ragrounds.base.contracts import Context
from ragrounds.base.records import Message


class State(TypedDict, total=False):
    answer: str


async def say(state: State, runtime: Runtime[Context]) -> State:
    reply = await runtime.context.ask([Message("user", words(runtime.context.stem.text))])
    return {"answer": reply.text}


def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph
"""


@pytest.fixture
def additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a retriever and a scorer, installed beside ragrounds: a folder on the path with its metadata."""
    place = tmp_path / "installed"
    folder = place / PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "retriever.py").write_text(RETRIEVER.format(package=PACKAGE))
    (folder / "order.py").write_text(BEST_FIRST)
    (folder / "scorer.py").write_text(SCORER)
    described = place / f"{PACKAGE}-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    (described / "entry_points.txt").write_text(
        f"[ragrounds.retrievers]\nown = {PACKAGE}.retriever:OWN\n[ragrounds.scorers]\nbrief = {PACKAGE}.scorer:BRIEF\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    return folder


def ran(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_ids(compared: Any) -> list[str]:
    return [row["run"] for row in compared["rows"]]


def differing_passages(home: Path, first: str, second: str) -> int:
    """Questions for which two runs were given other passages, or the same in another order."""
    with Store(home) as store:
        found = []
        for id in (first, second):
            attempts = store.attempts(store.run(id))
            found.append({one.question_id: [call.passages for call in calls(one.events)] for one in attempts})
    return sum(found[0][id] != found[1][id] for id in found[0])


@pytest.mark.slow
def test_a_retriever_that_does_something_else_is_searched_again(forked_cli, additions, server, home):
    options = ("--agent", "vanilla_rag[retriever=own,top_k=2]", "--model", "openai:plain", "--base-url", server.url)
    command = ("run", *options, "--limit", "12", "--display", "none", "--json")
    before = server.stats()["asked"]
    (first,) = run_ids(ran(forked_cli(*command)))
    asked = server.stats()["asked"] - before
    assert asked == 12

    (additions / "order.py").write_text(
        "# A comment, and\n\n\ndef ordered(query, found):  # another\n    return found\n"
    )
    assert run_ids(ran(forked_cli(*command))) == [first]
    assert server.stats()["asked"] - before == asked

    (additions / "order.py").write_text(WORST_FIRST)
    done = forked_cli(*command)
    (second,) = run_ids(ran(done))
    assert second != first
    assert f"{second} is a new run: since {first}, the retriever own changed" in done.stderr
    again = server.stats()["asked"] - before - asked
    changed = differing_passages(home, first, second)
    assert 0 < changed < 12
    assert again == changed

    shown = forked_cli("runs", "show", second, "--full").stdout
    assert "retriever_code" in shown


@pytest.mark.slow
def test_a_scorer_that_does_something_else_scores_again(forked_cli, additions, home):
    (run,) = run_ids(ran(forked_cli("run", "--agent", "direct", "--limit", "8", "--display", "none", "--json")))
    assert figure(forked_cli, run) == 0.0
    scorer = additions / "scorer.py"
    scorer.write_text(SCORER.replace("<= 0", "<= 100_000"))
    assert figure(forked_cli, run) == 1.0
    codes = stored_codes(home, run)
    scorer.write_text("# another comment\n" + SCORER.replace("<= 0", "<=   100_000"))
    assert figure(forked_cli, run) == 1.0
    assert stored_codes(home, run) == codes


def figure(forked_cli: Any, run: str) -> float:
    compared = ran(forked_cli("compare", run, "--scorer", "brief", "--json"))
    (table,) = [table for table in compared["tables"] if table["scorer"] == "brief"]
    (line,) = table["lines"]
    return float(line["overall"]["value"])


def stored_codes(home: Path, run: str) -> set[str]:
    with Store(home) as store:
        return store.score_codes(store.run(run))["brief"]


@pytest.mark.slow
def test_a_helper_of_an_own_graph_that_does_something_else_makes_another_run(forked_cli, tmp_path, server):
    (tmp_path / "mine.py").write_text(GRAPH)
    helper = tmp_path / "helper.py"
    helper.write_text("def words(text):\n    return 'Answer briefly. ' + text\n")
    options = ("--agent", "./mine.py:build", "--model", "openai:plain", "--base-url", server.url, "--limit", "5")
    command = ("run", *options, "--display", "none", "--json")
    before = server.stats()["asked"]
    (first,) = run_ids(ran(forked_cli(*command)))
    helper.write_text("def words(text):\n    # Politely.\n    return ('Answer briefly. ' + text)\n")
    assert run_ids(ran(forked_cli(*command))) == [first]
    assert server.stats()["asked"] - before == 5
    helper.write_text("def words(text):\n    return 'Answer in one word. ' + text\n")
    done = forked_cli(*command)
    (second,) = run_ids(ran(done))
    assert second != first
    assert f"{second} is a new run: since {first}, its code changed" in done.stderr
    assert server.stats()["asked"] - before == 10
    # Back again: the first run stands, and nothing is asked.
    helper.write_text("def words(text):\n    return 'Answer briefly. ' + text\n")
    assert run_ids(ran(forked_cli(*command))) == [first]
    assert server.stats()["asked"] - before == 10


class Keys:
    """A journal that notes keys and answers by itself."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def once(self, entry: Entry, make: Any, kind: Any) -> tuple[Any, bool]:
        self.keys.append(entry.key)
        return (Reply(text="A", usage=Usage(1, 1)) if entry.kind == "model" else await make()), False


async def test_the_keys_of_searches_stay(tmp_path, monkeypatch):
    """What a search's key is made of, beside the digest of the code that searches."""
    from ragrounds.tools.retriever import open_searcher

    monkeypatch.setattr("ragrounds.evals.engine.context.searcher_code", lambda searcher: "its code")

    journal = Keys()
    context = AttemptContext(
        item=Question(id="q/1", benchmark="sample", text="What?", kind="choice", options={"A": "this", "B": "that"}),
        epoch=0,
        parameters={},
        models={},
        searcher=open_searcher("bm25", "sample", tmp_path),
        prompts=PromptFolder(),
        journal=journal,
    )
    passages = await context.search(Query("fever in children"), 3)
    assert [type(passage) for passage in passages] == [Passage] * 3
    assert journal.keys == ["14e1853e503095016c2a4df5f6b96e61d89872d087760600b98175eb7dc01e01"]
