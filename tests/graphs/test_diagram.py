"""Pictures of the graphs, in the terminal and in the documentation."""

import json

import pytest

from ragrounds.graphs import catalogue, diagram
from tests.servers.process import ROOT

PUBLISHED = (
    "adaptive_rag",
    "best_of",
    "cascade",
    "chain_of_note",
    "cot_refine",
    "crag",
    "critique",
    "debate",
    "direct",
    "flare",
    "i_medrag",
    "ircot",
    "iter_retgen",
    "mdagents",
    "medagents",
    "medprompt",
    "native_search",
    "oracle",
    "plan_search",
    "query_generation",
    "rationale_query",
    "reason_in_documents",
    "search_o1",
    "search_r1",
    "self_ask",
    "self_consistency",
    "self_rag",
    "sure",
    "tool_agent",
    "vanilla_rag",
)
"""Graphs that docs/reference/strategies.md shows. A new graph works without."""
DOCUMENT = ROOT / "docs" / "reference" / "strategies.md"


def test_the_tree_shows_loops_conditions_and_subgraphs():
    assert diagram.tree(catalogue.build("search_o1")).splitlines() == [
        "start",
        "└── reason",
        "    ├┄┄ deny",
        "    │   ├┄┄ reason ↺",
        "    │   └┄┄ answer",
        "    │       └── end",
        "    ├┄┄ reason_in_documents:search",
        "    │   └── reason_in_documents:read",
        "    │       └── reason_in_documents:distil",
        "    │           └── insert",
        "    │               ├┄┄ reason ↺",
        "    │               └┄┄ answer ↺",
        "    ├┄┄ remind",
        "    │   ├┄┄ reason ↺",
        "    │   └┄┄ answer ↺",
        "    ├┄┄ search",
        "    │   └── insert ↺",
        "    └┄┄ answer ↺",
    ]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_documentation_holds_each_picture_as_it_is(name):
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"## `{name}`" in text
    assert diagram.mermaid(catalogue.build(name)) in text, (
        "write docs/reference/strategies.md anew: see its first lines"
    )


def test_the_digest_covers_what_a_graph_imports(edit):
    before = {name: catalogue.digest(name) for name in ("search_o1", "direct")}
    edit("continuation.py")
    assert catalogue.digest("search_o1") != before["search_o1"]
    assert catalogue.digest("direct") == before["direct"]


def show(command, *arguments):
    return command("list", "graphs", *arguments)


def test_graph_show_prints_picture_and_mermaid(command):
    shown = show(command, "cot_refine_rag")
    assert shown.returncode == 0, shown.stderr
    assert "└┄┄ retrieve\n    └── reason ↺" in shown.stdout
    assert "retrieve --> reason;" in shown.stdout
    assert show(command, "search_o2").returncode == 2
    assert "search_o1" in show(command, "search_o2").stderr
    assert json.loads(show(command, "direct", "--json", "--only", "tree").stdout)["tree"].startswith("start\n")
