"""Systems by names of their own: given at a run, in an agent's file, or to a table; never a part of what a run is."""

import csv
import io
import json
import re

import pytest

import ragrounds as rr
from ragrounds.api.aliases import named_agents, parse_names, split_alias
from ragrounds.base.errors import UserError
from ragrounds.evals.store.run_names import keep_names, kept_names
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.conftest import succeeded

HOSTILE = '<script>alert(1)</script>\u202e\x1b[31m | \\input{x} & "=1+1"'


@pytest.mark.parametrize(
    ("text", "agent", "name"),
    [
        ("direct", "direct", None),
        ('direct as "No search"', "direct", "No search"),
        ("vanilla_rag[top_k=8] as GPT-3.5 + RAG", "vanilla_rag[top_k=8]", "GPT-3.5 + RAG"),
        ('x[prompts="the same as before"]', 'x[prompts="the same as before"]', None),
        (r'direct as "a \"b\"   c"', "direct", 'a "b" c'),
        ('direct as ""', "direct", ""),
    ],
)
def test_a_name_follows_an_agent(text, agent, name):
    assert split_alias(text) == (agent, name)


def test_names_are_given_to_the_agents_of_a_run():
    agents = ["direct", "rag[k=1]", "rag[k=2] as old"]
    named = named_agents(agents, {"direct": 'No "s"', "rag[k=2]": "two"})
    assert [split_alias(agent) for agent in named] == [("direct", 'No "s"'), ("rag[k=1]", None), ("rag[k=2]", "two")]
    for reference, told in (("rag", "is several of"), ("ircot", "is none of")):
        with pytest.raises(UserError, match=told):
            named_agents(agents, {reference: "x"})


def test_an_equals_sign_in_brackets_or_quotes_divides_nothing():
    assert parse_names(["vanilla_rag[top_k=8]=RAG = 8", "direct= x "]) == {
        "vanilla_rag[top_k=8]": "RAG = 8",
        "direct": "x",
    }
    assert parse_names(['x[a="]="]=y']) == {'x[a="]="]': "y"}
    for wrong in ("direct", "vanilla_rag[top_k=8]", "=x"):
        with pytest.raises(UserError, match="expected RUN=NAME"):
            parse_names([wrong])


@pytest.fixture
def two(home):
    asked = questions(12)
    with Store(home) as store:
        add_run(store, "direct", asked, [1, 0] * 6)
        add_run(store, "vanilla_rag[top_k=8]", asked, [1] * 11 + [0], id="rag-run")
    return home


def test_a_name_stands_in_every_table_frame_and_picture(two, command, tmp_path):
    named = ("compare", "direct", "rag-run", "--as", "direct=No search", "--as", "vanilla_rag[top_k=8]=GPT-3.5 + RAG")
    shown = succeeded(command(*named, "--plot", str(tmp_path / "frontier.svg")))
    assert "\nNo search " in shown.stdout
    assert "\nGPT-3.5 + RAG " in shown.stdout
    assert "\nNo search " in command(*named, "--full").stdout
    assert "top_k" not in shown.stdout
    assert "GPT-3.5 + RAG" in (tmp_path / "frontier.svg").read_text(encoding="utf-8")
    rows = json.loads(command(*named, "--json").stdout)["rows"]
    assert [(row["agent"], row["name"]) for row in rows] == [
        ("direct", "No search"),
        ("vanilla_rag[top_k=8]", "GPT-3.5 + RAG"),
    ]
    cells = list(csv.DictReader(io.StringIO(command(*named, "--csv").stdout)))
    assert {row["name"] for row in cells} == {"No search", "GPT-3.5 + RAG"}
    found = rr.compare(["direct", "rag-run"], names={"direct": "No search"}, home=two)
    assert list(found.to_pandas("figures")["name"]) == ["No search", "vanilla_rag[top_k=8]"]
    assert list(found.to_pandas("pairs")[["first_name", "second_name"]].iloc[0]) == [
        "No search",
        "vanilla_rag[top_k=8]",
    ]
    with Store(two) as store:
        assert kept_names(store.engine) == {}  # a table's names are the table's


def test_names_are_escaped_wherever_they_are_shown(two, command, tmp_path):
    named = ("direct", "rag-run", "--as", f"direct={HOSTILE}")
    page = tmp_path / "report.html"
    assert command("report", *named, "--out", str(page)).returncode == 0
    html = page.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;U+202E&gt;&lt;U+001B&gt;[31m" in html
    for form in ((), ("--csv",), ("--latex",), ("--markdown",), ("--json",)):
        told = command("compare", *named, *form).stdout
        assert "alert(1)" in told
        assert "\x1b" not in told
        assert "\u202e" not in told
    assert "\\input{x}" not in command("compare", *named, "--latex").stdout


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"direct": "same", "rag-run": "same"}, "'same' to both direct-run and rag-run"),
        ({"direkt": "x"}, "matches none of the runs.*'direct'"),
        ({"direct": "x" * 121}, "at most 120"),
        ({"direct": "x", "direct-run": "y"}, "the run direct-run two names"),
    ],
)
def test_names_that_cannot_be_shown_are_refused(two, names, told):
    with pytest.raises(UserError, match=told):
        rr.compare(["direct", "rag-run"], names=names, home=two)


def test_systems_that_the_store_calls_alike_are_told_apart(two, command):
    with Store(two) as store:
        keep_names(store.engine, {"direct-run": "ours", "rag-run": "ours"})
    told = command("compare", "direct-run", "rag-run").stdout
    assert "ours (direct)" in told
    assert "ours (vanilla_rag[top_k=8])" in told


@pytest.mark.slow
def test_a_name_given_at_the_run_stays_and_asks_nobody_again(command, home, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'graph = "vanilla_rag"\nas = "Ours"\nsummary = "of mine"\nsearches = true\n\n[parameters]\ntop_k = 2\n'
        'prompting = "cot"\norder = "best_first"\ncontext_tokens = 0\nquery_generation = "none"\n',
        encoding="utf-8",
    )
    agents = ("--agent", "mine.toml", "--agent", "mine.toml[top_k=1]")
    options = ("run", "--limit", "4", "--display", "none")
    first = succeeded(command(*options, *agents, "--agent", 'direct as "No search"'))
    for name in ("Ours ", "Ours [top_k=1] ", "No search "):
        assert re.search(rf"^{re.escape(name)}", first.stdout, re.MULTILINE), name
    again = command(*options, *agents, "--agent", "direct as Closed book")
    assert "0 model calls made, 0 answered from the journal" in again.stderr
    assert "Closed book" in again.stdout
    listed = json.loads(command("runs", "ls", "--json").stdout)["runs"]
    assert [run["name"] for run in listed] == ["Closed book", "Ours [top_k=1]", "Ours"]  # the latest first
    assert "Closed book" in command("compare", "Closed book", "Ours").stdout  # what is printed can be typed
    assert list(rr.runs(home=home).to_pandas("runs")["name"]) == ["Ours", "Ours [top_k=1]", "Closed book"]
    both = command("run", "--agent", "direct as X", "--agent", "direct_cot as X", "--display", "none")
    assert both.returncode == 2
    assert "--agent gives the name 'X' to both direct and direct_cot" in both.stderr
    unnamed = command(*options, "--agent", 'direct as ""')
    assert "\ndirect " in unnamed.stdout


def test_names_move_with_their_runs_and_go_with_them(two, command, tmp_path, monkeypatch):
    with Store(two) as store:
        keep_names(store.engine, {"direct-run": "No search", "rag-run": "RAG"})
    file = tmp_path / "runs.ragrounds"
    assert command("export", "store", "direct-run", "--out", str(file)).returncode == 0
    assert command("runs", "rm", "direct-run").returncode == 0
    with Store(two) as store:
        assert kept_names(store.engine) == {"rag-run": "RAG"}
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path / "other"))
    assert command("import", "--format", "store", str(file)).returncode == 0
    with Store(tmp_path / "other") as store:
        assert kept_names(store.engine) == {"direct-run": "No search"}


def test_pictures_of_analyses_call_systems_by_name(two, command, tmp_path):
    picture = tmp_path / "quality.svg"
    names = ("--as", "direct=Closed book", "--as", "rag-run=GPT-3.5 + RAG")
    done = command("analyse", "epochs", "direct", "rag-run", "--scorer", "strict", *names, "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert "Closed book" in done.stdout
    assert "vanilla_rag" not in done.stdout
    assert "GPT-3.5 + RAG" in picture.read_text(encoding="utf-8")
    found = rr.analyse("epochs", ["direct", "rag-run"], scorer="strict", names={"direct": "Closed book"}, home=two)
    assert "Closed book" in str(found)
    assert "vanilla_rag[top_k=8]" in str(found)
    assert "Closed book" not in str(found.result)
