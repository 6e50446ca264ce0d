"""A run that was given a name has it on every screen of the viewer, and in the lists that commands print."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ragrounds.evals.store.run_names import keep_names
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import trace
from ragrounds.ui.trace.attempt_list import differences
from ragrounds.ui.trace.differences import answer_differences, difference_table
from ragrounds.ui.trace.headless import print_attempt
from ragrounds.ui.trace.lists import list_table
from tests.ui.trace.seeing import press, screen, viewer

NAME = "Hospital app"


@pytest.fixture
def named(store: Store) -> Pages:
    keep_names(store.engine, {store.runs()[0].id: NAME})
    return Pages(store, store.runs())


@pytest.mark.parametrize("view", ["1", "2", "3", "4", "0"])
async def test_every_view_has_the_given_name(named: Pages, view: str) -> None:
    async with viewer(named, view, size=(200, 60)) as (app, _):
        shown = screen(app)
        assert NAME in shown
        assert named.runs[0].agent not in shown.replace(named.runs[0].id, "")


async def test_runs_with_one_name_differ_in_every_heading(store: Store) -> None:
    runs = store.runs()
    keep_names(store.engine, {run.id: NAME for run in runs})
    pages = Pages(store, runs)
    async with viewer(pages, "1", size=(200, 60)) as (app, pilot):
        assert screen(app).count(f"{NAME} ({runs[0].agent})") >= 2, "the top line and the detail's heading"
        await press(pilot, "2")
        assert f"{NAME} ({runs[0].agent})" in screen(app).splitlines()[0]
    listed = {cell for row in list_table(pages.read(range(len(pages)))).rows for cell in row if NAME in cell}
    assert listed == {f"{NAME} ({run.agent})" for run in runs}


def test_lists_and_pages_have_the_given_name(named: Pages) -> None:
    rows = named.read(range(2))
    assert all(NAME in row for row in list_table(rows).rows)
    run = named.runs[0]
    printed = io.StringIO()
    print_attempt(trace(named.store, run, rows[0].question.id), Console(file=printed, width=150))
    assert f"by {NAME} ({run.id})" in printed.getvalue()
    assert f"{rows[0].question.id}, {NAME}" in printed.getvalue()
    differing = answer_differences(named, differences(named, 0, 1))
    assert f"#1 {NAME} scores higher on" in difference_table(*named.runs, differing).title
