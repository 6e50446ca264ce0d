"""i_medrag against a scripted model."""

import json

import pytest

from ragrounds.graphs.i_medrag import read_questions
from tests.graphs.playing import ANSWER, play, text_of


def further(*questions):
    return json.dumps({"analysis": "…", "queries": list(questions)})


async def test_rounds_of_follow_up_questions_each_answered_by_vanilla_rag():
    script = [further("q1", "q2"), "a1", "a2", further("q3"), "a3", ANSWER]
    played = await play("i_medrag[rounds=2,top_k=1]", script)
    assert played.attempt.text == ANSWER
    assert played.nodes == [
        "ask_further", "look_up", "retrieve", "answer", "retrieve", "answer",
        "ask_further", "look_up", "retrieve", "answer", "answer",
    ]  # fmt: skip
    assert played.calls == [
        "model querying@ask_further", "search searching@retrieve", "model reading@answer", "search searching@retrieve",
        "model reading@answer", "model querying@ask_further", "search searching@retrieve", "model reading@answer",
        "model answering@answer",
    ]  # fmt: skip
    assert played.shelf.queries == ["q1", "q2", "q3"]
    assert "Query: q1\nAnswer: a1\n\nQuery: q2\nAnswer: a2" in played.shown(3)
    assert "Query: q3\nAnswer: a3" in played.shown(5)
    assert "Text of passage 1." in played.shown(1)
    assert played.notes == []


async def test_options_reach_the_answering_node_alone():
    played = await play("i_medrag[rounds=1]", [further("q1"), "a1", ANSWER])
    assert ["zq" in text_of(request) for request in played.model.requests] == [False, False, True]


async def test_the_paper_s_numbers_are_the_default():
    script = [line for n in range(4) for line in (further(*(f"q{n}{m}" for m in "abcd")), "a", "a", "a")]
    played = await play("i_medrag", [*script, ANSWER])
    assert len(played.shelf.queries) == 12, "4 rounds of 3; a fourth question a round is left out"


async def test_rounds_that_cannot_be_read_do_not_count_but_end():
    played = await play("i_medrag", lambda request: ANSWER if "zq" in text_of(request) else "I have no questions.")
    assert played.nodes == ["ask_further"] * 7 + ["answer"], "rounds + 3"
    assert played.notes == ["no_queries"] * 7
    assert played.attempt.status == "completed"


async def test_the_same_question_for_ever():
    def script(request):
        return ANSWER if "zq" in text_of(request) else further("same") if "queries" in text_of(request) else "a"

    played = await play("i_medrag", script)
    assert played.shelf.queries == ["same"]
    assert played.notes.count("repeated_query") == 6
    assert played.attempt.status == "completed"


async def test_long_answers_are_cut_to_the_window():
    played = await play("i_medrag[rounds=1]", [further("q1"), "word " * 20_000, ANSWER], window=4000)
    assert played.attempt.status == "completed"
    assert "reasoning_cut" in played.notes


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ('{"queries": ["a", " b "]}', ["a", "b"]),
        ('Sure:\n```json\n{"analysis": "x", "queries": ["a"]}\n```', ["a"]),
        ('["a", 3, "", "b"]', ["a", "b"]),
        ("1. What?\n2) Why?\n- How?", ["What?", "Why?", "How?"]),
        ("{not json", []),
        ('{"queries": "a"}', []),
        ("[" * 100_000 + "]" * 100_000, []),
        ("", []),
    ],
)
def test_questions_are_read_leniently(text, questions):
    assert read_questions(text) == questions
