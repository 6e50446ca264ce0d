"""i_medrag against a scripted model."""

import json
import time

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold
from ragrounds.evals.scorers.mirage import MIRAGE
from ragrounds.evals.scorers.robust import ROBUST
from ragrounds.evals.scorers.strict import STRICT
from ragrounds.graphs.i_medrag import read_questions
from ragrounds.graphs.i_medrag_published import read_list, stated_letter
from ragrounds.graphs.model_text import boxed_line, last_between
from ragrounds.models.faults import CallFailed
from tests.graphs.playing import ANSWER, CHOICE, play, text_of


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
        ('{"queries": ["1. a", "2) b", "10.5 mg of what?"]}', ["a", "b", "10.5 mg of what?"]),
        ("## Analysis\n1. It may be gout.\n2. Or not.\n\n## Queries\n- a\n2. b", ["a", "b"]),
        ("## Analysis\n1. It may be gout.\n2. Which drugs?", ["Which drugs?"]),
        ("Queries:\n1. a", ["a"]),
        ("{not json", []),
        ('{"queries": "a"}', []),
        ("[" * 100_000 + "]" * 100_000, []),
        ("", []),
    ],
)
def test_questions_are_read_leniently(text, questions):
    assert read_questions(text) == questions


async def test_a_follow_up_whose_call_fails_is_left_out():
    def script(request):
        if "q1" in text_of(request) and "Known so far" not in text_of(request) and "zq" not in text_of(request):
            raise CallFailed("server_error", "down")
        return ANSWER if "zq" in text_of(request) else further("q1", "q2") if "queries" in text_of(request) else "a2"

    played = await play("i_medrag[rounds=1]", script)
    assert played.attempt.status == "completed"
    assert "Query: q2\nAnswer: a2" in played.shown(-1)
    assert "Query: q1" not in played.shown(-1)
    assert played.notes == ["follow_up_failed"]


PUBLISHED = "i_medrag[profile=medrag,retriever=bm25,rounds=1,top_k=1]"


async def test_the_authors_loop_shows_the_options_and_asks_for_json():
    script = [
        "## Analysis\n1. x\n## Queries\n1. q1",
        '{"output": ["1. q1"]}',
        "a  1\n",
        "## Answer\nB",
        '{"answer": "B"}',
    ]
    played = await play(PUBLISHED, script)
    assert played.attempt.text == '{"answer": "B"}'
    assert ["zq" in text_of(request) for request in played.model.requests] == [True, False, False, True, True]
    assert played.nodes == ["converse", "extract", "retrieve", "answer", "converse", "finish"]
    assert "Query: q1\nAnswer: a 1\n\n### Question" in played.shown(3)
    assert played.shelf.queries == ["q1"]


@pytest.mark.parametrize("scorer", [MIRAGE, STRICT, ROBUST], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ('{"answer": "B"}', "B"),
        ("{'answer': 'b'}", "B"),
        ('```json\n{"answer": "(B) Heparin"}\n```', "B"),
        ('{"answer": "A"} no: {"answer": "B."}', "B"),
    ],
)
async def test_the_letter_of_the_published_reply_is_what_every_scorer_takes(scorer, reply, letter):
    played = await play(PUBLISHED, ["## Queries\n1. q1", '{"output": ["1. q1"]}', "a 1", "## Answer\nB", reply])
    assert played.attempt.text == reply
    scored = scorer.score(played.attempt, CHOICE, Gold(question_id="q/1", answer="B"))
    assert (scored.value, scored.prediction, scored.answer_status) == (1.0, letter, "answered")


@pytest.mark.parametrize("reply", ['{"answer": "Because of it"}', '{"answer": "D"}', '{"answer": null}', "B"])
def test_a_published_reply_without_a_letter_of_the_question_states_none(reply):
    assert stated_letter(reply, CHOICE.options) == ""


@pytest.mark.parametrize(("letters", "stated"), [("AB", "b"), ("AB", "B"), ("Ab", "b")])
def test_the_letter_of_a_published_reply_is_an_option_s_whatever_its_case(letters, stated):
    letter = stated_letter(f'{{"answer": "{stated}"}}', dict.fromkeys(letters, "text"))
    assert letter == letters[1]


async def test_the_authors_loop_may_return_its_own_instructions_and_the_default_never_does():
    played = await play(PUBLISHED, lambda request: "## Queries\n")
    assert played.attempt.text.startswith("You help to answer questions about medicine.")
    assert "no_answer" in played.notes
    played = await play("i_medrag[rounds=1]", lambda request: ANSWER if "zq" in text_of(request) else "## Queries\n")
    assert played.attempt.text == ANSWER


async def test_options_are_shown_to_what_searches_only_where_the_agent_says_so():
    script = [further("q1"), "a1", ANSWER]
    played = await play("i_medrag[rounds=1,follow_ups_see_options=true,question_only=false]", list(script))
    assert ["zq" in text_of(request) for request in played.model.requests] == [True, False, True]
    with pytest.raises(UserError, match="question_only=false"):
        await play("i_medrag[rounds=1,follow_ups_see_options=true]", list(script))
    played = await play("i_medrag[rounds=1,loop=published]", lambda request: "## Queries\nq")
    assert "zq" not in played.shown(0)
    assert played.attempt.status == "completed"


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ('{"output": ["1. a", " 2.b "]}', ["a", "b"]),
        ('{"output": ["a", None]}', None),
        ('{"output": [null]}', None),
        ('{"output":["a"]}', None),
        ('{"output": [__import__("os")]}', None),
        ("{'output\": ['a'] and ]", None),
        ('output": ' + "[" * 10_000 + "]", None),
    ],
)
def test_the_authors_list_is_read_as_a_literal_and_nothing_in_it_is_run(text, listed):
    assert read_list(text) == listed


@pytest.mark.parametrize(
    "unit", ["\n", " ", "1. ", "- a ", "# ", "queries ", 'output": [', "\\boxed{", "\\text{", "<|begin_search_query|>"]
)
def test_hostile_texts_take_no_time(unit):
    text, start = unit * (200_000 // len(unit)), time.process_time()
    read_questions(text)
    read_list(text)
    boxed_line("\\boxed{" + text + "}")
    last_between(text, "<|begin_search_query|>", "<|end_search_query|>")
    assert time.process_time() - start < 2
