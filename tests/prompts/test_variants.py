"""Wordings that ship beside the usual ones: short answers, as OGCaReBench asks models made for medicine."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError
from ragrounds.prompts.loader import PromptFolder, variants
from tests.graphs.playing import LONG, play

FOLDER = files("ragrounds.prompts").joinpath("variants")
FILES = [(variant, file.name) for variant in variants() for file in FOLDER.joinpath(variant, "long").iterdir()]


@pytest.mark.parametrize(("variant", "name"), FILES)
def test_a_variant_asks_for_the_same_values_as_the_prompt_it_words_anew(variant: str, name: str) -> None:
    usual = files("ragrounds.prompts").joinpath("long", name).read_text(encoding="utf-8")
    text = FOLDER.joinpath(variant, "long", name).read_text(encoding="utf-8")
    assert sorted(re.findall(r"\$\w+", text)) == sorted(re.findall(r"\$\w+", usual))
    assert re.findall(r"^### .*$", text, re.MULTILINE) == re.findall(r"^### .*$", usual, re.MULTILINE)
    assert ("100" in text) == (variant == "hundred_words")


@pytest.mark.parametrize("agent", ["direct", "direct_cot", "vanilla_rag", "oracle"])
async def test_every_answer_is_asked_for_in_fewer_than_100_words(agent: str) -> None:
    usual = await play(agent, ["An answer."], LONG, gold=["d1"])
    short = await play(f"{agent}[prompts=hundred_words]", ["An answer."], LONG, gold=["d1"])
    assert "100 words" not in usual.shown(0)
    assert "fewer than 100 words" in short.shown(0)
    assert ("Text of passage 1." in short.shown(0)) == (agent in ("vanilla_rag", "oracle"))


def test_a_variant_is_part_of_an_agents_name_and_of_its_prompts_digest() -> None:
    assert open_agent("direct[prompts=hundred_words]").spec == "direct[prompts=hundred_words]"
    usual, short = (PromptFolder(folder).digest(("long/direct", "choice/cot")) for folder in (None, "hundred_words"))
    assert usual["choice/cot"] == short["choice/cot"]
    assert usual["long/direct"] != short["long/direct"]
    with pytest.raises(UserError, match=r"no folder of prompts 'hundred_wrds'\. Did you mean 'hundred_words'"):
        PromptFolder("hundred_wrds")


def test_the_profile_sets_it_for_models_made_for_medicine() -> None:
    retriever = "retriever=parent[of=maxp[of=bge-large-en]]"
    for model, expected in (("openai:gpt-5", ""), ("vllm:google/medgemma-27b-text-it", "prompts=hundred_words,")):
        found = open_agent("vanilla_rag[profile=ogcarebench]", model=model)
        assert found.spec == f"vanilla_rag[prompting=direct,{expected}{retriever},top_k=5]"
