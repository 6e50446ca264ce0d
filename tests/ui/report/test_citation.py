"""What a report says to cite: the tool in the runs' version, papers of benchmark and strategies, as BibTeX too."""

import re

from msgspec.structs import replace

from ragrounds.agents.agent import names
from ragrounds.evals.benchmarks.cards import all_cards
from ragrounds.ui.report.citation import bibtex, citations
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
    assert found[3].bibtex == (
        "@misc{search-o1,\n  author = {Li and others},\n  title = {Search-o1: Agentic Search-Enhanced Large Reasoning "
        "Models},\n  year = {2025},\n  note = {arXiv 2501.05366}\n}"
    )


def test_imported_answers_are_no_run_of_a_strategy_that_ships(store):
    run = add_run(store, "search_o1", questions(2), [1, 0], origin="imported")
    assert [one.what for one in citations([run], [])] == ["this tool"]


def test_every_paper_of_a_card_and_of_a_strategy_has_authors_a_year_and_a_title():
    import tomllib

    from ragrounds.ui.report.html_tables import asset

    strategies = tomllib.loads(asset("strategy_papers.toml"))
    assert set(strategies) <= set(names())
    papers = [*strategies.values(), *(card.paper for card in all_cards() if card.paper)]
    assert len(papers) > 15
    for paper in papers:
        entry = bibtex("key", paper)
        assert all(f"  {field} = {{" in entry for field in ("author", "title", "year", "note")), paper


def test_nothing_in_an_entry_is_a_command_to_latex():
    entry = bibtex("a/b_c", r"Evil \input{x} & 100 % of_it (2020)")
    assert entry.startswith("@misc{a-b-c,")
    assert r"\input" not in entry
    assert re.search(r"Evil inputx \\& 100 \\% of\\_it", entry)
