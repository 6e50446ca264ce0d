"""Unicode's normal forms of texts that nobody has looked at."""

from __future__ import annotations

import random
import unicodedata

import pytest

from ragrounds.api.progress import TerminalListener
from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.base.text import normalized
from ragrounds.evals.scorers import find_scorer, score_by

HEAP = "e" + "\u0301\u0327" * 200_000
"""Marks upon one letter: put in order by the standard library alone, they would take hours."""


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFKD"])
def test_what_people_write_is_as_the_standard_says(form: str) -> None:
    some = random.Random(form)
    letters = "aé ﬁ①Ωשָׁ한글漢字ｶﾞ①\u0301\u0327\u05b0\u3099—。…\n"
    for _ in range(3_000):
        text = "".join(some.choices(letters, k=some.randrange(40)))
        assert normalized(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]
    line = "─" * 500 + "。" * 500
    assert normalized(form, line) == unicodedata.normalize(form, line)  # type: ignore[arg-type]


def test_of_a_heap_of_marks_the_first_are_kept() -> None:
    assert normalized("NFKD", HEAP + " after") == unicodedata.normalize("NFKD", HEAP[:31] + " after")


@pytest.mark.parametrize("name", ["robust", "strict", "mirage", "facts"])
def test_every_scorer_reads_an_answer_with_a_heap_of_marks(name: str) -> None:
    question = Question(id="q", benchmark="b", text="What?", options={"A": "one", "B": "two"})
    gold = Gold(question_id="q", answer="B", facts=(("two",),))
    attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text=f"{HEAP} two. Answer: B")
    assert score_by(find_scorer(name), attempt, question, gold).value == 1


def test_messages_on_a_terminal_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    TerminalListener().message("a model\x1b[2J\u202eb")
    assert capsys.readouterr().err == "a model<U+001B>[2J<U+202E>b\n"
