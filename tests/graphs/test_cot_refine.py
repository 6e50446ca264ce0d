"""cot_refine against a scripted model."""

from ragrounds.graphs import catalogue
from tests.graphs.playing import ANSWER, LONG, Scripted, Shelf, passage, play

FIRST = '{"step_by_step_thinking": "first thoughts", "answer_choice": "A"}'


async def test_refines_its_first_answer():
    played = await play("cot_refine", [FIRST, ANSWER])
    assert played.nodes == ["reason", "refine"]
    assert played.calls == ["model answering@reason", "model answering@refine"]
    assert played.attempt.text == ANSWER
    assert "first thoughts" in played.shown(1)
    assert "zqb" in played.shown(1)
    assert played.shelf.queries == []


async def test_with_retrieval_the_documents_stand_in_the_second_stage_alone():
    played = await play("cot_refine_rag[top_k=2]", [FIRST, ANSWER])
    assert played.nodes == ["retrieve", "reason", "refine"]
    assert "Text of passage" not in played.shown(0)
    assert "Text of passage 2." in played.shown(1)
    assert "Text of passage 3." not in played.shown(1)
    assert "first thoughts" in played.shown(1)
    assert played.shelf.queries == ["Which drug is given first?"]


async def test_the_first_stage_is_the_chain_of_thought_call_of_the_journal():
    played = await play(["direct_cot", "cot_refine", "cot_refine_rag"], [FIRST, ANSWER, ANSWER])
    assert len(played.model.requests) == 3, "one chain of thought and two refinements"
    assert played.reused == 2


async def test_long_questions_have_prompts_of_their_own():
    played = await play("cot_refine_rag", ["R0", "Answer:\nHeparin."], LONG)
    assert played.attempt.text == "Answer:\nHeparin."
    assert "Text of passage 1." in played.shown(1)


async def test_an_empty_first_answer_is_shown_as_such():
    played = await play("cot_refine", ["", ANSWER])
    assert "### First answer\n(empty)" in played.shown(1)


async def test_a_first_answer_of_100_000_characters_leaves_room_for_documents():
    shelf = Shelf([passage(1, "zfact " * 300)])
    played = await play("cot_refine_rag", ["word " * 20_000, ANSWER], window=4000, shelf=shelf)
    assert Scripted([]).count(played.shown(1)) < 3000
    assert played.shown(1).count("zfact") == 300
    assert "reasoning_cut" in played.notes


def test_prompts_are_told():
    assert {"choice/cot", "choice/refine", "choice/refine_rag", "long/refine"} <= set(
        catalogue.prompts_of("cot_refine")
    )
