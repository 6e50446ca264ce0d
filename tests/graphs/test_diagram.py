"""Pictures of the graphs, in the terminal and in the documentation."""

import json

from ragrounds.graphs import catalogue, diagram
from tests.servers.process import ROOT

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


def test_the_documentation_has_a_line_for_each_graph():
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in row.partition(" | ")[0].replace("`", "").strip("| ").split(", ")}
    assert set(catalogue.names()) - {"router"} <= named
    for name in catalogue.names():
        assert diagram.mermaid(catalogue.build(name)).startswith("graph TD;"), name


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
