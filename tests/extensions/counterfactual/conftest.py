"""Runs that counterfactuals are made of, on a real loopback server: made once, and every test works on a copy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from tests.servers.scripted_http import Scripted, scripted

LETTERS = "ABCD"
FACT = re.compile(r"FACT(\d+): the right option of it is ([A-D])")
NUMBER = re.compile(r"case number (\d+)\b")
N = 16
"""Questions; of every fourth the right option is A."""


def reply(prompt: str, before: int = 0) -> str:
    """The letter that the first fact about the case in the prompt states; without one, always A."""
    number = NUMBER.findall(prompt)[-1]
    letter = next((letter for fact, letter in FACT.findall(prompt) if fact == number), "A")
    return json.dumps({"step_by_step_thinking": "As it says.", "answer_choice": letter})


def write_questions(folder: Path, count: int, long: int = 0) -> str:
    """Write questions of two kinds, and a corpus in which one document states the right option of each choice question;
    return the benchmark's spec."""
    documents, questions = [], []
    for place in range(count):
        right = LETTERS[place % 4]
        text = f'Report "on" case number {place}. FACT{place}: the right option of it is {right}.'
        documents.append({"_id": f"d{place}", "title": f"Case {place}", "text": text})
        options = {letter: f"finding {letter}{place}" for letter in LETTERS}
        question = {"id": f"q{place}", "question": f"What holds for case number {place}?", "options": options}
        questions.append(question | {"answer": right, "documents": [f"d{place}"]})
    for place in range(long):
        question = {"id": f"long{place}", "question": f"Why case number {place}?", "answer": "So.", "facts": [["so"]]}
        questions.append(question)
    (folder / "corpus" / "qrels").mkdir(parents=True)
    for path, rows in ((folder / "corpus" / "corpus.jsonl", documents), (folder / "q.jsonl", questions)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"jsonl:{folder}/q.jsonl"


@dataclass
class Parents:
    """Stored runs, and the server that their model is asked at."""

    folder: Path
    home: Path
    server: Scripted
    ids: dict[str, str]
    """Agent → its run."""

    def counterfactual(self, agents: str | list[str], changes: str | list[str], **options: Any) -> Any:
        """Make counterfactuals of the runs of these agents, with one sample of the identity."""
        runs = [self.ids[agent] for agent in ([agents] if isinstance(agents, str) else agents)]
        options = {"samples": 1, "home": self.home, "progress": False, **options}
        return rr.counterfactual(runs, changes=changes, **options)

    def effects(self, agent: str, changes: str | list[str], **options: Any) -> dict[str, Any]:
        """Change → its effect."""
        record = self.counterfactual(agent, changes, **options).result.record
        return {effect.change: effect for effect in record.effects}

    def prompts(self) -> list[str]:
        """The last message of every request to the server since the test began."""
        return [body["messages"][-1]["content"] for body in self.server.bodies]

    def store(self) -> Store:
        """Open the store."""
        return Store(self.home)


@pytest.fixture(scope="session")
def model_server() -> Iterator[Scripted]:
    with scripted(reply) as server:
        yield server


def make_runs(folder: Path, server: Scripted, count: int, *agents: str, long: int = 0) -> Parents:
    """Run agents on choice questions, and on `long` ones that another scorer reads."""
    benchmark = write_questions(folder, count, long)
    server.script = reply
    made = rr.run(
        benchmark, list(agents), corpus=f"beir:{folder}/corpus", model="openai:m", base_url=server.url,
        home=folder / "home", progress=False,
    )  # fmt: skip
    return Parents(folder, folder / "home", server, dict(zip(agents, made.ids, strict=True)))


@pytest.fixture(scope="session")
def stored_runs(tmp_path_factory: pytest.TempPathFactory, model_server: Scripted) -> Parents:
    """Runs of five agents, which tests only read."""
    agents = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=3]", "plan_search", "ircot[top_k=1,steps=2]")
    return make_runs(tmp_path_factory.mktemp("parents"), model_server, N, *agents)


@pytest.fixture
def parents(stored_runs: Parents, tmp_path: Path) -> Parents:
    """The same runs in a home of the test's own, and a server that has forgotten what it was asked."""
    shutil.copytree(stored_runs.home, tmp_path / "home")
    stored_runs.server.script = reply
    stored_runs.server.bodies.clear()
    return replace(stored_runs, home=tmp_path / "home")
