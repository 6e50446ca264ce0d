"""Runs of one agent can be told apart wherever they are shown."""

import io
import xml.etree.ElementTree as ET

from rich.console import Console

from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.agent_names import NamedRun, agent_names, unique_names
from ragrounds.ui.pictures.chart_svg import svg
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.report.page import report_page
from ragrounds.ui.tables.comparison_tables import comparison_tables, print_comparison
from ragrounds.ui.tables.text_tables import markdown
from tests.compare.making import add_run, questions


def named(*wanted):
    """What runs of these agents, models by role, and where they are given corpora and retrievers, are called."""
    rows = [
        NamedRun(run=f"run-{number}", agent=agent, models=models, name="",
                 **dict(zip(("corpus", "retriever"), [*searched, "", ""], strict=False)))
        for number, (agent, models, *searched) in enumerate(wanted)
    ]  # fmt: skip
    found = unique_names(rows)
    return [found[row.run] for row in rows]


def test_different_agents_are_their_texts():
    assert named(("direct", {"model": "a:m"}), ("vanilla_rag[top_k=8]", {"model": "a:n"})) == [
        "direct",
        "vanilla_rag[top_k=8]",
    ]


def test_no_servers_address_is_in_a_name():
    models = {"model": "a:m"}
    one, other = (f'vanilla_rag[retriever=web[url="http://{host}:8000/v1"],top_k=8]' for host in ("one", "two"))
    assert named((one, models)) == ["vanilla_rag[retriever=web,top_k=8]"]
    assert named((one, models), (other, models)) == [
        f"vanilla_rag[retriever=web,top_k=8] (run-{number})" for number in range(2)
    ]
    assert named(("./mine.py:ask://x", models)) == ["./mine.py:ask://x"]


def test_one_agent_with_two_models_is_told_apart_by_the_short_texts():
    small, large = {"model": "openai:small[temperature=0]"}, {"model": "openai:large[temperature=0]"}
    assert named(("direct", small), ("cot", small), ("direct", large)) == [
        "direct (openai:small)",
        "cot",
        "direct (openai:large)",
    ]


def test_of_several_models_those_that_differ():
    one, other = {"model": "a:m", "reader": "a:x"}, {"model": "a:m", "reader": "a:y"}
    assert named(("direct", one), ("direct", other)) == ["direct (reader: a:x)", "direct (reader: a:y)"]
    assert named(("direct", {"model": "a:m"}), ("direct", one)) == ["direct (reader: -)", "direct (reader: a:x)"]


def test_versions_of_a_corpus_tell_runs_apart_in_a_few_characters():
    model = {"model": "a:m"}
    old, new = "lib@75185c27e437", "lib@16b57fe12e29"
    assert named(("rag", model, old), ("rag", model, new)) == ["rag (lib@75185c)", "rag (lib@16b57f)"]
    assert named(("rag", model, f"x@aaaaaaaaaaaa+{old}"), ("rag", model, f"x@aaaaaaaaaaaa+{new}")) == [
        "rag (lib@75185c)",
        "rag (lib@16b57f)",
    ]
    near = "lib@75185c99e437"
    assert named(("rag", model, old), ("rag", model, near)) == ["rag (lib@75185c27)", "rag (lib@75185c99)"]
    other = {"model": "a:n"}
    assert named(("rag", model, old), ("rag", other, new)) == ["rag (a:m, lib@75185c)", "rag (a:n, lib@16b57f)"]
    assert named(("rag", model, ""), ("rag", model, old)) == ["rag (no corpus)", "rag (lib@75185c)"]


def test_retrievers_tell_runs_apart():
    model, lib = {"model": "a:m"}, "lib@75185c27e437"
    assert named(("rag", model, lib, "bm25[b=0.4]"), ("rag", model, lib, "dense")) == ["rag (bm25)", "rag (dense)"]
    assert named(("rag", model, lib, "bm25[b=0.4]"), ("rag", model, lib, "bm25[b=0.7]")) == [
        "rag (bm25[b=0.4])",
        "rag (bm25[b=0.7])",
    ]


def test_settings_of_a_model_where_its_name_is_not_enough():
    cost_uncached, hot = {"model": "a:m[temperature=0]"}, {"model": "a:m[temperature=1]"}
    assert named(("direct", cost_uncached), ("direct", hot)) == [
        "direct (a:m[temperature=0])",
        "direct (a:m[temperature=1])",
    ]


def test_ids_where_the_models_are_alike():
    one, other = {"model": "a:m[temperature=0]"}, {"model": "a:n"}
    assert named(("direct", one), ("direct", one)) == ["direct (run-0)", "direct (run-1)"]
    assert named(("direct", {}), ("direct", {})) == ["direct (run-0)", "direct (run-1)"]
    assert named(("direct", one), ("direct", one), ("direct", other)) == [
        "direct (a:m, run-0)",
        "direct (a:m, run-1)",
        "direct (a:n, run-2)",
    ]


def test_everything_shown_tells_two_models_apart(store):
    asked = questions(4)
    runs = [
        add_run(
            store,
            "direct",
            asked,
            [1, 0, 0, 1],
            cost_uncached=0.01,
            id="direct-1",
            identity={"models": {"model": "a:m"}},
        ),
        add_run(
            store,
            "direct",
            asked,
            [1, 1, 0, 1],
            cost_uncached=0.02,
            id="direct-2",
            identity={"models": {"model": "a:<n>\x1b"}},
        ),
    ]
    found = compare(store, runs)
    ours = ["direct (a:m)", "direct (a:<n><U+001B>)"]
    for table in comparison_tables(found):
        if table.key in ("scores", "outcomes"):
            assert [row[0] for row in table.rows] == ours[::-1], "the best first"
    console = Console(width=200, file=io.StringIO(), record=True)
    print_comparison(found, console=console, full=True)
    text = console.export_text()
    # Accuracy, outcomes, difference, frontier, price, the picture, and in the first line the one with the best figure.
    assert [text.count(name) for name in ours] == [6, 7]
    assert "direct (a:m)" in markdown(comparison_tables(found))
    drawn = svg(frontier_picture(found.tables[0].frontier, "strict", agent_names(found)))
    told = [one.text for one in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert all(told.count(name) == 1 for name in ours), "at its place"
    page = "".join(report_page(store, runs, found))
    assert "direct (a:<wbr>m)</" in page
    assert "direct (a:&lt;n&gt;&lt;U+001B&gt;)</text>" in page
    assert "\x1b" not in page
