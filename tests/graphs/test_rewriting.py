"""Queries generated for retrieval alone."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Query
from ragrounds.extensions.retrieval.query_generation import QueryGenerator
from tests.graphs.playing import Scripted, Shelf


async def test_a_text_becomes_a_query_once(journal):
    model = Scripted(["A made-up passage."])
    rewriter = QueryGenerator("hyde", {"model": model}, None, journal)
    assert (await rewriter.query("What helps?")).query.text == "A made-up passage."
    again = await rewriter.query("What helps?")
    assert again.query == Query("A made-up passage.", ("What helps?", "A made-up passage."))
    assert len(model.requests) == 1
    assert (again.spent.cost_paid, again.spent.cost_uncached) == (0.0, 0.001)


async def test_a_chinese_text_gets_the_chinese_prompt(journal):
    model = Scripted(["段落"])
    await QueryGenerator("hyde", {"model": model}, None, journal).query("高血压如何治疗？")
    assert "像医学论文" in model.requests[0].messages[0].content


async def test_lamer_and_agents_search(journal):
    shelf = Shelf()
    model = Scripted(["By passages.", "<search>x</search>", "<answer>Heparin</answer>"])
    assert (await QueryGenerator("lamer", {"model": model}, shelf, journal).query("Q?")).query.text == "Q? By passages."
    assert (
        await QueryGenerator("answer[agent=search_r1]", {"model": model}, shelf, journal).query("Q?")
    ).query.text == "Heparin"
    assert shelf.queries == ["Q?", "x"]


async def test_without_a_corpus_lamer_says_what_it_needs(journal):
    with pytest.raises(UserError, match="corpus"):
        await QueryGenerator("lamer", {"model": Scripted([])}, None, journal).query("Q?")
