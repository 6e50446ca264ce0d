"""query_generation and vanilla_rag behind it, against a scripted model."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Query
from ragrounds.graphs.query_generation import combined
from tests.graphs.playing import ANSWER, CHOICE, Shelf, passage, play, text_of


@pytest.mark.parametrize(
    ("way", "lexical", "dense"),
    [
        ("hyde", "D", ("Q", "D")),
        ("query2doc", "Q Q D", ("Q [SEP] D",)),
        ("lamer", "Q D", ("Q", "D")),
        ("answer", "D", ("Q", "D")),
    ],
)
def test_combination_rules_of_the_table(way, lexical, dense):
    assert combined(way, "Q", "D") == Query(lexical, dense)


class MeanShelf(Shelf):
    async def search_mean(self, texts, k):
        self.queries.append(texts)
        return self.passages[:k]


async def test_hyde_stands_before_the_retriever():
    played = await play("vanilla_rag[query_generation=hyde,top_k=2]", ["<think>hm</think>A made-up passage.", ANSWER])
    assert played.nodes == ["query_generation", "generate", "combine", "retrieve", "answer"]
    assert played.calls == ["model querying@generate", "search searching@retrieve", "model answering@answer"]
    assert played.shelf.queries == ["A made-up passage."]
    assert ["zq" in text_of(request) for request in played.model.requests] == [False, True]
    assert "made-up" not in played.shown(1), "what was generated is searched with, never read"


async def test_dense_retrievers_get_the_mean():
    shelf = MeanShelf()
    await play("vanilla_rag[query_generation=hyde]", ["Passage.", ANSWER], shelf=shelf)
    assert shelf.queries == [(CHOICE.text, "Passage.")]


async def test_query2doc_shows_two_examples():
    played = await play("vanilla_rag[query_generation=query2doc]", ["Passage.", ANSWER])
    assert played.shown(0).count("### Passage") == 3
    assert played.shelf.queries == [f"{CHOICE.text} {CHOICE.text} Passage."]


async def test_lamer_shows_what_the_question_itself_finds():
    shelf = Shelf([passage(1, "word " * 600), *(passage(n) for n in range(2, 15))])
    played = await play("vanilla_rag[query_generation=lamer,top_k=1]", ["Passage.", ANSWER], shelf=shelf)
    assert played.nodes == ["query_generation", "candidates", "generate", "combine", "retrieve", "answer"]
    assert shelf.queries == [CHOICE.text, f"{CHOICE.text} Passage."]
    assert played.shown(0).count("word") == 512
    assert "Document [9]" in played.shown(0)
    assert "Document [10]" not in played.shown(0)


async def test_an_agent_s_answer_is_the_query_and_never_saw_the_options():
    agent = "vanilla_rag[query_generation=answer[agent=search_r1],top_k=1]"
    script = ["<search>onset</search>", "<answer>Heparin acts at once</answer>", ANSWER]
    played = await play(agent, script)
    assert played.nodes == [
        "query_generation", "generate", "act", "search", "act", "answer", "combine", "retrieve", "answer",
    ]  # fmt: skip
    assert played.shelf.queries == ["onset", "Heparin acts at once"]
    assert ["zq" in text_of(request) for request in played.model.requests] == [False, False, True]
    assert played.attempt.text == ANSWER


async def test_an_empty_text_leaves_the_question():
    played = await play("vanilla_rag[query_generation=hyde]", ["<think>only thought", ANSWER])
    assert played.shelf.queries == [CHOICE.text]
    assert played.notes == ["nothing_generated"]


async def test_the_graph_alone_ends_with_a_query():
    played = await play("query_generation", ["Passage."])
    assert played.attempt.status == "completed"
    assert played.attempt.text == "Passage."


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("hide", "hyde"),
        ("answer", "agent=search_o1"),
        ("answer[agent=oracle]", "oracle"),
        ("answer[agent=nobody]", "Unknown agent"),
        ("answer[agent=vanilla_rag[query_generation=answer[agent=direct]]]", "as deep as it goes"),
    ],
)
async def test_wrong_ways_are_told(way, message):
    with pytest.raises(UserError, match=message):
        await play(f"vanilla_rag[query_generation={way}]", [ANSWER])
