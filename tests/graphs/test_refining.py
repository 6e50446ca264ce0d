"""The stage between search and prompt: what is left of what was found, for every strategy that searches."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Reply, Usage
from ragrounds.graphs.refining import _best, _by_words, read_way
from tests.graphs.playing import ANSWER, CHOICE, Shelf, passage, play, text_of
from tests.graphs.test_strategies import HOSTILE, LOOKS

PASSAGES = [
    passage(1, "Heparin is the drug given first. The weather was fine. It rained."),
    passage(2, "Nothing of this matters. Cats sleep."),
    passage(3, "Which drug helps? Aspirin is a drug."),
]
SEARCHING = {
    **{name: one for name, one in LOOKS.items() if open_agent(name).card.searches},
    "vanilla_rag": ANSWER,
    "cot_refine_rag": ANSWER,
    "i_medrag": json.dumps({"queries": ["drug"]}),
}
NOTES = json.dumps({"notes": ["Heparin comes first.", "", "Aspirin is one."]})


async def test_the_best_sentences_are_shown_in_their_passages():
    played = await play("vanilla_rag[refine=extractive[sentences=2]]", [ANSWER], shelf=Shelf(PASSAGES))
    shown = played.shown(0)
    assert "Heparin is the drug given first." in shown
    assert "Which drug helps?" in shown
    for gone in ("weather", "rained", "Cats", "Aspirin is", "Title 2"):
        assert gone not in shown
    assert played.notes == ["refined"]
    (search,) = (one.call for one in played.attempt.events if isinstance(one, Called) and one.call.kind == "search")
    assert search.passages == ("p1", "p2", "p3"), "hops and gold are counted as without"


async def test_notes_take_the_passages_place_and_are_a_call_of_their_own_role():
    script = [Reply(text=NOTES, usage=Usage(input=7, output=3)), ANSWER]
    played = await play("vanilla_rag[refine=notes]", script, shelf=Shelf(PASSAGES))
    assert "Aspirin is one." in played.shown(1)
    assert "Cats" not in played.shown(1)
    assert played.calls == ["search searching@retrieve", "model refining@retrieve", "model answering@answer"]
    assert played.attempt.usage == Usage(input=7 + 10, output=3 + 5), "of the notes and of the answer"
    read = await play("vanilla_rag[refine=notes]", [ANSWER], reader=[NOTES], shelf=Shelf(PASSAGES))
    assert read.reader is not None
    assert "Heparin is the drug" in text_of(read.reader.requests[0])


@pytest.mark.parametrize("way", ["notes", "extractive[sentences=2]"])
@pytest.mark.parametrize("agent", SEARCHING)
async def test_every_strategy_has_it_and_options_never_get_there(agent, way):
    def script(request):
        return NOTES if "### Searched for" in text_of(request) else SEARCHING[agent]

    shelf = Shelf(PASSAGES)
    played = await play(f"{agent}[refine={way}]", script, shelf=shelf)
    assert played.attempt.status == "completed", played.attempt.reason
    assert shelf.queries
    assert "refined" in played.notes
    texts = [text_of(request) for request in played.model.requests]
    refining = [text for text in texts if "### Searched for" in text]
    assert [text for text in refining if "zq" in text] == []
    assert [text for text in texts if "Cats sleep" in text and text not in refining] == []
    assert bool(refining) == ("model refining" in " ".join(played.calls)) == (way == "notes")


@pytest.mark.parametrize("listed", [False, True])
async def test_hostile_notes(listed):
    for reply in HOSTILE:
        notes = json.dumps({"notes": [reply, 1, None, [], reply]}) if listed else reply
        played = await play("vanilla_rag[refine=notes]", [notes, ANSWER], window=3000)
        ended = (played.attempt.status, played.attempt.text, len(played.model.requests))
        assert ended == ("completed", ANSWER, 2), (notes[:40], played.attempt.reason)


@given(texts=st.lists(st.text(max_size=60), max_size=5), query=st.text(max_size=40), count=st.integers(1, 4))
def test_whatever_was_found_no_more_sentences_are_left(texts, query, count):
    found = [passage(number, text) for number, text in enumerate(texts)]
    found = [one for one, text in zip(found, texts, strict=True) if text]
    for language in ("en", "zh"):
        kept = _best(read_way(f"extractive[sentences={count}]"), query, found, _by_words, language)
        assert len(kept) <= count
        by_id = {one.id: one for one in found}
        assert [one.id for one in kept] == [one.id for one in found if one.id in {each.id for each in kept}]
        for one in kept:
            assert len(one.text) <= len(by_id[one.id].text)


def test_texts_are_canonical_and_what_cannot_be_is_refused():
    assert open_agent("vanilla_rag[refine=none]").settled == open_agent("vanilla_rag").settled
    assert open_agent("vanilla_rag[refine=none]").spec == "vanilla_rag"
    noted = open_agent("vanilla_rag[ refine = extractive[ sentences = 3 ] ]")
    assert noted.spec == "vanilla_rag[refine=extractive[sentences=3]]"
    assert noted.settled["refine"] == "extractive[sentences=3]"
    for wrong, words in {
        "vanilla_rag[refine=note]": "Did you mean",
        "vanilla_rag[refine=notes[x=1]]": "no parameter",
        "vanilla_rag[refine=extractive[sentences=0]]": "sentences",
        "vanilla_rag[refine=llmlingua[rate=2]]": "rate",
        "direct[refine=notes]": "no parameter",
        "oracle[refine=notes]": "no parameter",
    }.items():
        with pytest.raises(UserError, match=words):
            open_agent(wrong)


async def test_libraries_that_are_not_there_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "llmlingua", None)
    with pytest.raises(UserError, match="pip install llmlingua"):
        await play("vanilla_rag[refine=llmlingua]", [ANSWER])
    if "sentence_transformers" not in sys.modules:
        with pytest.raises(UserError, match=r"ragrounds\[local\]|weights"):
            await play("vanilla_rag[refine=recomp[model=./nowhere]]", [ANSWER])


async def test_llmlingua_is_asked_for_each_passage(monkeypatch):
    """By a stand-in for its class: its weights are not here."""

    class Compressor:
        def __init__(self, **given):
            assert given["use_llmlingua2"]

        def compress_prompt(self, text, rate):
            words = text.split()
            return {"compressed_prompt": " ".join(words[: int(len(words) * rate)])}

    monkeypatch.setitem(sys.modules, "llmlingua", SimpleNamespace(PromptCompressor=Compressor))
    played = await play("vanilla_rag[refine=llmlingua[rate=0.4]]", [ANSWER], CHOICE, shelf=Shelf(PASSAGES))
    assert "Heparin is the drug" in played.shown(0)
    assert "fine" not in played.shown(0)
