"""`ragrounds trace` without a terminal, and what it says when it cannot."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from ragrounds.api.trace import annotate
from ragrounds.base.errors import UserError
from ragrounds.cli import main
from ragrounds.cli.trace import _counting
from ragrounds.evals.store.store import Store
from tests.conftest import succeeded
from tests.ui.trace.making import score


class Done(Struct, frozen=True):
    returncode: object
    stdout: str
    stderr: str


Trace = Callable[..., Done]


@pytest.fixture
def trace(quiz: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trace:
    shutil.copytree(quiz, home)

    def run(*arguments: str, command: str = "trace") -> Done:
        monkeypatch.setattr(sys, "argv", ["ragrounds", command, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(ended.value.code, *capsys.readouterr())

    return run


def test_an_attempt_in_every_format(trace: Trace) -> None:
    text = succeeded(trace("seeker", "quiz/000", "--full", command="show"))
    assert "search “query 1” → 2, gold at 1" in text.stdout
    assert "You are careful." in text.stdout
    data = json.loads(trace("seeker[rounds=3]", "000", "--json", command="show").stdout)
    assert data["steps"][6]["calls"][0]["asked"]["messages"][1]["content"] == "Now **answer**."
    assert "try 1 failed: rate_limit (HTTP 429)" in text.stdout


def test_two_answers_stand_beside_each_other(trace: Trace) -> None:
    shown = trace("plain", "001", "--against", "seeker", command="show").stdout
    assert "  B. Bed rest  ← plain" in shown
    assert re.search(r"✗ plain: B +│ ✓ seeker\[rounds=3\]: A", shown)
    both = json.loads(trace("plain", "001", "--against", "seeker", "--json", command="show").stdout)["attempts"]
    assert [one["run"]["agent"] for one in both] == ["plain", "seeker[rounds=3]"]
    assert "There is no run 'x'" in trace("plain", "001", "--against", "x", command="show").stderr


def test_lists_filter_sort_and_limit(trace: Trace) -> None:
    rows = json.loads(trace("--format", "json", "--where", "wrong", "--sort", "time", "--limit", "3").stdout)[
        "attempts"
    ]
    assert [(row["agent"], row["question_id"]) for row in rows] == [
        ("seeker[rounds=3]", "quiz/004"),
        ("plain", "quiz/003"),
        ("plain", "quiz/002"),
    ]
    assert rows[0]["scorer"] == "strict"
    assert "quiz/004" in trace("plain", "--format", "text", "--where", 'about:"case 4"').stdout


def test_what_only_one_has_right(trace: Trace) -> None:
    data = json.loads(trace("plain", "seeker", "--differing", "--format", "json").stdout)
    assert [(row["question_id"], row["first"], row["second"]) for row in data["questions"]] == [
        ("quiz/001", 0.0, 1.0),
        ("quiz/004", 1.0, 0.0),
    ]
    printed = trace("plain", "seeker", "--differing").stdout
    assert "2 questions on which they differ: #1 plain scores higher on 1, #2 seeker[rounds=3] on 1" in printed
    assert "✗ B not shown" in printed


def test_runs_that_differ_nowhere_have_a_sentence_and_no_table(trace: Trace, home: Path) -> None:
    with Store(home) as store:
        plain, seeker = store.runs()
        for run in (plain, seeker):
            store.add_scores(run, [score(number, right=True, scorer="equal") for number in (0, 1, 4)])
    done = trace("plain", "seeker", "--differing", "--scorer", "equal")
    assert done.stdout == ""
    assert "Both have the same score on every question" in done.stderr
    assert f"ragrounds show {plain.id} QUESTION --against {seeker.id}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs a terminal"),
        (("--format", "html"), "Known: text, json, csv"),
        (("--format", "text", "--sort", "costs"), "Did you mean 'cost'"),
        (("--format", "text", "--attempt", "plain/quiz/000"), "`ragrounds show RUN QUESTION` prints one attempt"),
        (("plain", "--differing"), "compares two runs"),
        (("nobody", "--format", "text"), "There is no run 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(trace: Trace, arguments: tuple[str, ...], said: str) -> None:
    done = trace(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_empty_store_says_how_to_fill_it(trace: Trace, home: Path) -> None:
    shutil.rmtree(home)
    assert "`ragrounds run` makes some" in trace("--format", "text").stderr


def test_a_filter_on_the_command_line_reads_full_text_and_facts_of_an_older_store(trace: Trace) -> None:
    found = trace("--where", "wrong and hops>2", "--format", "json")
    rows = json.loads(found.stdout)["attempts"]  # the quiz has no facts: they were made from the journal
    assert [(row["agent"], row["question_id"]) for row in rows] == [("seeker[rounds=3]", "quiz/004")]
    assert rows[0]["facts"]["hops"] == 3
    assert rows[0]["facts"]["gold_rank"] == 1
    assert "quiz/001" in trace("--where", 'reply:"kept in round" right', "--format", "text").stdout
    assert "found at 1, seen" in trace("--where", "query:query*", "--format", "text").stdout
    wrong = trace("--where", "wrong adn hops>>3", "--format", "text")
    assert wrong.returncode == 2
    assert "hops" in wrong.stderr
    assert "Did you mean 'hops'" in trace("--where", "hopz>3", "--format", "text").stderr


def test_a_long_step_is_said_once_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with _counting() as progress:
        for done in (100, 1_000, 2_000):
            progress("indexing the words", done)
    assert capsys.readouterr().err == "indexing the words …\n"


def test_marks_and_notes_are_left_shown_exported_and_taken_away(trace: Trace, home: Path) -> None:
    left = annotate("plain/001", mark="Star", text="=look\nagain", home=home)
    assert left is not None
    assert (left.mark, left.text) == ("star", "=look\nagain")
    listed = trace("--where", "mark:star", "--format", "json").stdout
    assert [(row["question_id"], row["notes"][0]["text"]) for row in json.loads(listed)["attempts"]] == [
        ("quiz/001", "=look\nagain")
    ]
    rows = list(csv.DictReader(io.StringIO(trace("--where", "marked or right", "--format", "csv").stdout)))
    assert [row["marks"] for row in rows] == ["", "star", "", "", ""]
    assert rows[1]["notes"].endswith(": =look\nagain")
    assert float(rows[1]["cost_uncached"]) == 0.01
    assert "*star" in trace("--where", "noted", "--format", "text").stdout
    for form in ("--full", "--json"):
        assert "star" in trace("plain", "001", form, command="show").stdout
    assert annotate("plain/001", mark="", text="", home=home) is None
    assert json.loads(trace("--where", "marked or noted", "--format", "json").stdout)["attempts"] == []
    assert "Known: text, json." in trace("plain", "--hops", "--format", "csv").stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("plain", "expected RUN/QUESTION"),
        ("plian/quiz/000", "There is no run 'plian'"),
        ("plain/quiz/00", "has no question"),
    ],
)
@pytest.mark.usefixtures("trace")
def test_a_place_where_no_attempt_is(place: str, said: str, home: Path) -> None:
    with pytest.raises(UserError, match=said):
        annotate(place, mark="star", home=home)


def test_the_author_is_that_of_the_settings(trace: Trace, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGROUNDS_AUTHOR", "Ada L.")
    from ragrounds.api.runs import load

    left = annotate("plain/001", text="why", home=home)
    assert left is not None
    assert (left.author, left.text) == ("Ada L.", "why")
    frame = load("plain", home=home).to_pandas("attempts")
    assert list(frame["notes"].dropna()) == ["Ada L.: why"]
    assert frame["marks"].isna().all()
