"""The layout of prompts: the order of their parts, what stands in the system's turn, and whose prompts it is for."""

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError
from ragrounds.prompts.loader import PromptFolder
from tests.graphs.playing import ANSWER, play

VALUES = {"documents": "### Question\nnot a part", "question": "Q $x", "options": "A. one"}


def turns(layout, folder=None, **more):
    made = PromptFolder(folder, layout).render("choice/rag", **{**VALUES, **more})
    return {message.role: message.content for message in made}


def headings(text):
    return [line for line in text.splitlines() if line.startswith("### ")]


def test_no_layout_and_the_layout_of_the_files_give_the_same_text():
    assert turns("documents+question+options") == turns("")


def test_parts_are_put_in_order_and_the_rest_follows_before_the_cue():
    assert headings(turns("question+options")["user"]) == [
        "### Question", "### Options", "### Documents", "### Question", "### Answer",
    ]  # fmt: skip
    assert "not a part" in turns("question")["user"], "nothing in a document begins a part"


def test_a_part_may_stand_in_the_system_s_turn_and_the_system_s_in_the_user_s():
    made = turns("documents@system+question")
    assert made["system"].endswith("### Documents\n### Question\nnot a part")
    assert "### Documents" not in made["user"]
    alone = turns("question+options+system")
    assert "system" not in alone
    assert alone["user"].index("A. one") < alone["user"].index("You answer multiple-choice") < len(alone["user"])


def test_parts_without_a_value_are_left_out_with_their_headings():
    asked = {"number": "3", "question": "Q", "known": "", "options": ""}
    shown = PromptFolder().render("i_medrag/follow_up", **asked)[1].content
    assert headings(shown) == ["### Question", "### Instruction"]


def test_a_prompt_of_the_user_s_own_stands_as_it_is(tmp_path):
    (tmp_path / "choice").mkdir()
    (tmp_path / "choice" / "rag.md").write_text("[user]\n### Options\n$options\n\n### Question\n$question $documents")
    made = turns("documents+question+options", str(tmp_path))
    assert made == {"user": "### Options\nA. one\n\n### Question\nQ $x ### Question\nnot a part"}


@pytest.mark.parametrize(
    ("layout", "said"), [("documents+questoin", "Did you mean 'question'"), ("question+question", "twice")]
)
def test_an_unknown_layout_is_refused_when_the_agent_is_opened(layout, said):
    with pytest.raises(UserError, match=said):
        open_agent(f"vanilla_rag[layout={layout}]")


async def test_a_layout_reaches_the_model_and_a_folder_comes_before_it(tmp_path):
    played = await play("vanilla_rag[layout=options+question,top_k=1]", [ANSWER])
    assert played.shown(0).index("zqa") < played.shown(0).index("Which drug")
    (tmp_path / "choice").mkdir()
    (tmp_path / "choice" / "rag.md").write_text("[user]\n$question\n$options\n$documents")
    mine = f'vanilla_rag[layout=options+question,prompts="{tmp_path}",top_k=1,profile=medrag,retriever=bm25]'
    played = await play(mine, [ANSWER])
    assert played.shown(0).startswith("Which drug is given first?\nA. Warfarin zqa")
    assert "Document [0] (Title: Title 1) Text of passage 1." in played.shown(0)
