"""A system whose object keeps what it is asked: attempts that hear of each other are noticed, named and kept apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr

AGENT = """
import json, time, urllib3

class Chat:
    def __init__(self):
        self.messages = []

    def run(self, text):
        self.messages = [{{"role": "user", "content": text}}]
        time.sleep({pause})
        for _ in range(2):
            asked = {{"model": "m", "messages": list(self.messages)}}
            answer = urllib3.request("POST", {url!r} + "/chat/completions", json=asked).json()
            self.messages.append(answer["choices"][0]["message"])
        return self.messages[-1]["content"]

shared = Chat()

def ask(question: str):
    return shared.run(question)

def ask_apart(question: str):
    return Chat().run(question)
"""


@pytest.fixture
def run(served, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mine.py").write_text(AGENT.format(url=served.url, pause=0.1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))
    return lambda name, **options: rr.run("sample", f"./mine.py:{name}", limit=8, progress=False, **options)


def notes(result: Any) -> str:
    return "\n".join(one for one in result.comparison.notes if "contained the question of another" in one)


def test_a_shared_object_is_noticed_and_its_attempts_are_made_one_after_the_other(served, run) -> None:
    texts: list[str] = []

    def says(asked: Any) -> str:
        texts.append(str(asked["messages"][0]["content"]))
        return "The answer is B"

    served.says = says
    result = run("ask", concurrency=3)
    assert "`--concurrency 1 --new` repeats them" in notes(result)
    last = texts[-8:]  # of the last four attempts, made one after the other
    assert [last[n] == last[n + 1] for n in range(0, 8, 2)] == [True] * 4
    assert len(set(last)) == 4
    assert not notes(run("ask", concurrency=1, new=True, journal="fresh", in_process=True))


def test_a_system_that_keeps_nothing_is_made_at_once(run) -> None:
    assert not notes(run("ask_apart", concurrency=4, in_process=True))
