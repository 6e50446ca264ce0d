"""What a report says to cite: the tool in the runs' version, papers of benchmark and strategies."""

import re

from msgspec.structs import replace

from ragrounds.agents.agent import names, read_card
from ragrounds.evals.benchmarks.cards import all_cards
from ragrounds.ui.report.citation import citations
from tests.compare.making import add_run, questions


def test_the_tool_the_benchmark_and_the_strategies_each_once(store):
    asked = questions(4, "mirage/pubmedqa")
    runs = [
        replace(add_run(store, agent, asked, [1] * 4), benchmark="mirage", version="0.9", created=1.75e9)
        for agent in ("search_o1[top_k=3]", "search_o1", "direct", "own.py:graph")
    ]
    found = list(citations(runs, ["mirage/pubmedqa"]))
    assert [one.what for one in found] == ["this tool", "mirage", "mirage/pubmedqa", "search_o1"]
    assert "version = {0.9}" in found[0].bibtex
    assert "year = {2025}" in found[0].bibtex
    assert found[3].text.startswith("Li et al. (2025). Search-o1: ")


def test_imported_answers_are_no_run_of_a_strategy_that_ships(store):
    run = add_run(store, "search_o1", questions(2), [1, 0], origin="imported")
    assert [one.what for one in citations([run], [])] == ["this tool"]


def test_every_paper_of_a_card_and_of_a_strategy_has_authors_a_year_and_a_title():
    papers = [card.paper for card in (*map(read_card, names()), *all_cards()) if card.paper]
    assert len(papers) > 40
    for paper in papers:
        assert re.match(r".+ \(\d{4}\)\. .+\. ?(arXiv|doi)? ?\S*$", paper), paper
