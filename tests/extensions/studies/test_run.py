"""A study carried out: one table, resumed as one, with what is missing named; the same figures as `compare`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import ragrounds as rr
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Usage
from ragrounds.evals.engine.budget import Budget
from ragrounds.extensions.studies.call import CountingListener, StudyBudget
from ragrounds.extensions.studies.functions import list_studies, show_study
from tests.servers.scripted_http import Scripted, scripted

FILE = """
title = "Two strategies on two models"
source = "made up"
baseline = "A, none"
spread = "binomial"
note = "A note for the reader."

[settings]
corpus = "sample"
seed = 1

[[rows]]
name = "{model}, {agent}"
group = "all"
agent = { "none" = "direct", "8" = "vanilla_rag[top_k=8]" }
model = { "A" = "openai:a", "B" = "openai:b" }
published = { "A, none" = [50, "40.5 ±2.5", "", ""] }

[[columns]]
name = "first"
benchmark = "sample"
limit = 12

[[columns]]
name = "second"
benchmark = "sample"
limit = 9

[[columns]]
name = "Average"
mean = ["first", "second"]

[[columns]]
name = "elsewhere"
benchmark = "mirage/medqa"
"""


def letters(prompt: str, before: int) -> str:
    """A letter that hangs on the prompt alone."""
    return json.dumps({"answer_choice": "ABCD"[sum(map(ord, prompt)) % 4]})


@pytest.fixture
def server():
    with scripted(letters) as serving:
        yield serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(FILE)
    return path


def carried_out(file: Path, server: Scripted, home: Path, **given: object) -> rr.StudyResult:
    return rr.study(file, base_url=server.url, alias="here", home=home, confirmed=True, progress=False, **given)


def cell(made: rr.StudyResult, row: str, column: str):
    return next(one for one in made.table.cells if (one.row, one.column) == (row, column))


def test_each_cell_shows_the_run_of_its_own_row(tmp_path: Path) -> None:
    """One call makes the runs of both rows; each figure is looked up by itself."""
    path, agents = tmp_path / "two.toml", {"none": "direct", "two": "vanilla_rag[top_k=2]"}
    rows = "".join(f'[[rows]]\nname = "{name}"\nagent = "{agent}"\n' for name, agent in agents.items())
    settings = '[settings]\ncorpus = "sample"\nmodel = "baseline:extractive"\nseed = 1\nlimit = 24\n'
    path.write_text(f'title = "Two"\n{settings}{rows}[[columns]]\nname = "all"\nbenchmark = "sample"\n')

    class Leaving(rr.StudyListener):
        def attempts(self, done: int, total: int) -> None:
            raise rr.Interrupted("enough")

    with pytest.raises(rr.Interrupted):
        rr.study(path, home=tmp_path, confirmed=True, listener=Leaving())
    broken_off = show_study("two", home=tmp_path)
    kept = {name: cell(broken_off, name, "all").runs for name in agents}
    assert {name: rr.load(*runs, home=tmp_path).agent for name, runs in kept.items()} == agents

    made = rr.study(path, home=tmp_path, confirmed=True, progress=False)
    shown = {name: cell(made, name, "all") for name in agents}
    assert shown["none"].value != shown["two"].value
    assert made.to_pandas().shape == (2, 21)
    for name, agent in agents.items():
        alone = rr.compare(rr.runs(agent, home=tmp_path)[0], home=tmp_path)
        assert rr.load(shown[name].runs[0], home=tmp_path).agent == agent
        assert shown[name].value == 100 * alone.comparison.shown_tables()[0][0].lines[0].overall.value, f"row {name!r}"


@pytest.mark.slow
def test_a_row_alone_then_the_rest(file: Path, server: Scripted, tmp_path: Path) -> None:
    alone = carried_out(file, server, tmp_path, rows="A, none", columns=["first"])
    assert [(one.row, one.column, one.state) for one in alone.table.cells] == [("A, none", "first", "done")]
    assert (alone.asked, alone.done) == (1, 1)
    assert server.calls == 12
    rest = carried_out(file, server, tmp_path, columns="second")
    assert rest.table.columns == ("second",)
    assert (rest.asked, rest.done) == (4, 4)
    assert "mirage/medqa" not in str(rest)  # another column's note
    whole = show_study(file, home=tmp_path)
    assert cell(whole, "A, none", "first").state == "done"  # of the earlier call
    assert cell(whole, "A, 8", "first").state == "to do"


def test_a_budget_counts_what_was_paid_and_the_tokens_of_calls_that_were_made() -> None:
    """Half of the attempt was answered by the journal: it costs nothing now, whatever its full price is. A request
    without an answer was perhaps paid: a limit counts its price, the bill does not."""
    attempt = Attempt(
        run="r", question_id="q", epoch=0, status="completed", text="A", usage=Usage(800, 200), cost_paid=0.25,
        cost_uncached=2.0,
    )  # fmt: skip
    progress = SimpleNamespace(observe=lambda finished: None, runs={}, left=0, journal=None)
    budget = StudyBudget(Budget(cost=1.0, tokens=1_000))
    with CountingListener(rr.StudyListener(), budget).progress(progress) as count:  # type: ignore[arg-type]
        count(FinishedAttempt(SimpleNamespace(id="r"), attempt, (), tokens_made=500, billable=0.75))  # type: ignore[arg-type]
    assert (budget.paid, budget.ended()) == (0.25, "")
    assert budget.left() == {"max_cost": 0.25, "max_total_tokens": 500, "max_time": None}
    budget.add(None, 0, None)
    assert (budget.paid, budget.left()["max_cost"]) == (None, 0)
    assert "cannot be checked" in budget.ended()


@pytest.mark.slow
def test_a_budget_is_for_all_cells(file: Path, server: Scripted, tmp_path: Path) -> None:
    few = carried_out(file, server, tmp_path, max_total_tokens=12 * 1100, concurrency=1)
    assert "tokens is used up" in few.ended
    assert 0 < server.calls < 20
    begun = cell(few, "A, none", "first")
    assert (begun.state, cell(few, "A, none", "Average").value) == ("part", None)
    assert show_study("two", home=tmp_path).table.count("part") == few.table.count("part") > 0
    whole = carried_out(file, server, tmp_path)
    assert whole.table.count("done") == 12
    assert server.calls == 48
    nothing = carried_out(file, server, tmp_path, max_total_tokens=0)
    assert nothing.table.count("done") == 12  # what is there is shown, whatever may be spent
    assert server.calls == 48


@pytest.mark.slow
def test_one_projection_for_all_cells(file: Path, server: Scripted, tmp_path: Path) -> None:
    priced = "[price_input=500,price_output=500]"
    text = FILE.replace('"openai:a"', f'"openai:a{priced}"').replace('"openai:b"', f'"openai:b{priced}"')
    file.write_text(text.replace("limit = 12", "limit = 40").replace("limit = 9", "limit = 30"))
    told: list[str] = []

    class Hearing(rr.StudyListener):
        def message(self, text: str) -> None:
            told.append(text)

        def confirm(self, expected: str) -> bool:
            told.append(expected)
            return False

    given = {"base_url": server.url, "alias": "here", "home": tmp_path}
    with pytest.raises(UserError, match="project_above_dollars = 5") as refused:
        rr.study(file, **given, listener=Hearing())
    assert "finished work is saved" in str(refused.value)
    assert any(line.startswith("All cells together are projected to take $") for line in told)
    piloted = server.calls
    # Two models and two strategies, 8 questions each; equal requests of the two columns are one call.
    assert 32 <= piloted <= 64
    bounded = rr.study(file, **given, max_cost=100_000, progress=False)
    assert bounded.table.count("done") == 12
    assert server.calls == 2 * 2 * 40  # each question once: those of the pilots were not asked again


def test_the_calls_of_the_pilots_are_counted(file: Path, server: Scripted, tmp_path: Path) -> None:
    priced = FILE.replace("openai:a", "openai:a[price_input=1,price_output=1]")
    file.write_text(priced.replace("limit = 12", "limit = 20"))
    given = {"base_url": server.url, "alias": "here", "home": tmp_path, "rows": "A, none", "columns": "first"}
    made = rr.study(file, **given, progress=False)  # without a budget or consent, a pilot comes first
    assert (made.made, made.reused) == (server.calls, 0) == (20, 0)


def test_a_cell_is_what_compare_shows_and_is_listed(file: Path, server: Scripted, tmp_path: Path) -> None:
    made = carried_out(file, server, tmp_path, rows="A, none", columns="first")
    shown = cell(made, "A, none", "first")
    compared = rr.compare(shown.runs[0], home=tmp_path).comparison.shown_tables()[0][0].lines[0].overall
    figures = (compared.value, compared.low, compared.high, compared.error)
    assert (shown.value, shown.low, shown.high, shown.spread) == tuple(100 * figure for figure in figures)
    assert shown.deviation == pytest.approx(shown.value - 50)
    found = {one.name: one for one in list_studies(home=tmp_path)}
    assert found["two"].cells == 12
    assert found["two"].kept == 1
    assert not found["mirage-table6"].file
