"""`rr.doctor(concurrency=…)`: answers that change with the number of calls that a server processes at once."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

import ragrounds as rr
from tests.servers.http_script import Asked, Told, answering

QUESTIONS, CHANGED = 20, 3


class BatchServer:
    """Server whose answers to some questions change once several calls are in flight.

    The first calls of every 20 wait for each other, so they are in flight together, or the test fails.
    """

    def __init__(self) -> None:
        self.together = {0: 1, 1: 2, 2: 8}
        self.barriers = {part: threading.Barrier(count) for part, count in self.together.items()}
        self.temperatures: set[float] = set()
        self._count, self._ordinals = itertools.count(), dict[str, int]()

    def answer(self, asked: Asked, before: int) -> Told:
        if asked.method == "GET":
            return Told({}, 404)
        if "numbers from one" in str(asked.body["messages"]):
            return completion("one two three")
        part, index = divmod(next(self._count), QUESTIONS)
        if index < self.together[part]:
            self.barriers[part].wait(20)
        self.temperatures.add(asked.body["temperature"])
        ordinal = self._ordinals.setdefault(asked.body["messages"][-1]["content"], len(self._ordinals))
        changes = part == 2 and ordinal < CHANGED
        return completion("It cannot be answered." if changes else "The answer is A.")


def completion(text: str) -> Told:
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    return Told({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage})


@pytest.mark.slow
def test_answers_that_change_with_the_number_of_calls_are_counted(tmp_path: Path) -> None:
    server = BatchServer()
    with answering(server.answer) as script:
        found = rr.doctor("openai:m", f"{script.url}/v1", concurrency=8, home=tmp_path)
    assert found.concurrency is not None
    assert [answers.in_flight for answers in found.concurrency.answers] == [1, 2, 8]
    assert server.temperatures == {0.0}
    lines = list(found.concurrency.lines())
    right = 100 * sum(found.concurrency.answers[0].scores.values()) / QUESTIONS
    assert lines[1] == f"       1: {right:.1f} % robust"
    assert lines[2] == f"       2: {right:.1f} % robust; of 20, 0 texts and 0 scores differ from those at 1"
    assert f"8: {100 * sum(found.concurrency.answers[2].scores.values()) / QUESTIONS:.1f} %" in lines[3]
    assert f"; of 20, {CHANGED} texts and " in lines[3]
    assert not list(tmp_path.glob("store*")) or "0 runs" in found.store


def test_a_check_of_concurrency_needs_a_model() -> None:
    with pytest.raises(rr.UserError, match="expected 2 or more, and a model"):
        rr.doctor(concurrency=16)
