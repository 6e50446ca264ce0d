"""oracle, native_search, and who may see what."""

from collections.abc import Iterator

import pytest

from ragrounds.agents.agent import names, open_agent
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Query
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs import catalogue
from tests.graphs.playing import ANSWER, CHOICE, Scripted, Shelf, play, text_of
from tests.rows import each_row


async def test_the_gold_documents_are_the_context():
    played = await play("oracle", [ANSWER], gold=["d4", "d2"])
    assert played.nodes == ["gold", "answer"]
    assert "Document [0] (Title: Title 4)" in played.shown(0)
    assert "Document [1] (Title: Title 2)" in played.shown(0)
    assert "Text of passage 1." not in played.shown(0)
    assert played.shelf.queries == []


async def test_a_gold_document_that_the_corpus_lacks_is_noted():
    played = await play("oracle", [ANSWER], gold=["d4", "d99"])
    assert played.notes == ["gold_missing"]
    assert played.attempt.status == "completed"


async def test_native_search_asks_the_provider_to_search():
    played = await play("native_search", [ANSWER])
    assert [request.web_search for request in played.model.requests] == [True]


def agents() -> Iterator[str]:
    return (name for name in names() if name != "oracle")


@pytest.mark.parametrize("agent", [*agents(), "vanilla_rag[query_generation=lamer]", "search_o1[reading=false]"])
async def test_gold_and_options_stay_where_they_belong(agent):
    def script(request):
        return r"<answer>x</answer> \boxed{x} {\"queries\": [\"q\"]} Final information: y"

    played = await play(agent, script, gold=["d4"])
    sent = [text_of(request) for request in played.model.requests]
    assert all("SECRET-GOLD" not in text for text in [*sent, *map(str, played.shelf.queries)])
    assert all("zq" not in str(query) for query in played.shelf.queries)
    assert played.attempt.status == "completed"


def session(**more):
    return AttemptContext(
        item=CHOICE, epoch=0, parameters={}, models={"model": Scripted([])}, searcher=Shelf(), prompts=None,
        journal=None, **more,
    )  # fmt: skip


async def test_only_an_oracle_is_given_gold_documents():
    with pytest.raises(UserError, match="oracle"):
        session().gold_passages()


async def test_no_search_and_no_reading_after_the_options_were_read():
    blind = session()
    assert blind.question.options
    with pytest.raises(UserError, match="after the question's options had been read"):
        await blind.search(Query("x"), 1)
    with pytest.raises(UserError, match="question_only = false"):
        await blind.ask([Message("user", "x")], role="querying")


async def test_an_inner_question_has_no_options():
    inner = session().asking(CHOICE.stem, role="reading", top_k=3)
    assert inner.question.options == {}
    assert inner.parameters == {"top_k": 3}


@each_row("agent", names())
def test_every_agent_has_a_graph_a_summary_and_prompts_that_exist(agent):
    from ragrounds.prompts.loader import PromptFolder

    card = open_agent(agent).card
    catalogue.build(card.graph).compile()
    assert card.summary.endswith(".")
    assert set(catalogue.prompts_of(card.graph)) <= set(PromptFolder().names())
