"""The hop timeline: lines for every width, every key at three sizes, and the way into a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from ragrounds.evals.analyses.gold_by_hop import hop_profile
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import HopReader, gold_hops
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.trace.hop_lines import HopLine, hop_cells, hop_columns, hop_heading, hop_line
from ragrounds.ui.trace.views.hops import HopScreen
from tests.ui.trace import making
from tests.ui.trace.seeing import current, press, screen, settle, until, viewer

Hunted = tuple[Path, dict[tuple[str, str], str]]


def planted(pages: Pages, hunted: Hunted, cause: str, agent: str = "search_o1") -> int:
    """The place of an attempt of an agent in which a cause is planted."""
    numbers = [one.agent for one in pages.runs]
    question = next(id for (who, id), what in hunted[1].items() if what == cause and who == agent)
    row = pages.row_of(numbers.index(agent), question)
    assert row is not None
    return row


def lines(pages: Pages, rows: list[int]) -> list[HopLine]:
    return [hop_line(one) for one in HopReader(pages).read(pages.read(rows))]


@pytest.mark.parametrize("width", [40, 77, 117, 197])
@pytest.mark.parametrize("most", [1, 4, 30])
def test_a_line_has_exactly_its_width(hunt_pages: Pages, width: int, most: int) -> None:
    agents = names_of_runs(hunt_pages.runs)
    columns = hop_columns(width, agents, most)
    for summary, line in zip(hunt_pages.read([0, 250, 450]), lines(hunt_pages, [0, 250, 450]), strict=True):
        text = "".join(part for part, _ in hop_cells(summary, line, columns, agents, 0, 0))
        assert cell_len(text) == cell_len(hop_heading(columns, 0))
        assert width == 40 or cell_len(text) == width  # 40 columns are too few for every column


def test_a_line_says_what_each_search_found_and_what_became_of_it(hunt_pages: Pages, hunted: Hunted) -> None:
    rows = [planted(hunt_pages, hunted, cause) for cause in ("cut away", "failed search", "ignored", "never retrieved")]
    cut, failed, ignored, never = lines(hunt_pages, rows)
    assert any(hop.signs == "★4◐" for hop in cut.hops)
    assert any(hop.signs == "!" and hop.style == "trouble" for hop in failed.hops)
    assert any(hop.signs.endswith("●") for hop in ignored.hops)
    assert all(hop.gold_rank is None for hop in never.hops)
    assert [one.cause.word for one in (cut, failed, ignored, never) if one.cause] == [
        "not shown", "search failed", "ignored", "never found",
    ]  # fmt: skip


def test_where_there_is_room_the_query_stands_in_the_line(hunt_pages: Pages) -> None:
    summary, line = hunt_pages.read([450])[0], lines(hunt_pages, [450])[0]
    wide, narrow = hop_columns(197, {}, 4), hop_columns(77, {}, 4)
    assert line.hops[0].query[:12] in "".join(text for text, _ in hop_cells(summary, line, wide, {}))
    assert line.hops[0].query[:12] not in "".join(text for text, _ in hop_cells(summary, line, narrow, {}))


async def test_enter_opens_the_attempt_and_says_which_search(hunt_pages: Pages, hunted: Hunted) -> None:
    row = planted(hunt_pages, hunted, "cut away")
    async with viewer(hunt_pages, row=row) as (app, pilot):
        opened: list[int | None] = []
        hops = HopScreen(app.attempt_list, app.browse.notes)
        app.push_screen(hops, opened.append)
        await until(pilot, lambda: hops.is_mounted and hops.line_of(app.attempt_list.current))
        await press(pilot, "right", "enter")
        await until(pilot, lambda: opened)
        assert opened == [row]
        (read,) = HopReader(hunt_pages).read(hunt_pages.read([row]))
        assert hops.chosen_place == read.hops[1].call


async def test_only_rows_on_the_screen_are_read(hunt_pages: Pages) -> None:
    async with viewer(hunt_pages, "2") as (app, pilot):
        shown = current(app, HopScreen)
        assert 0 < len(shown.lines) < 80
        await press(pilot, "end")
        assert 599 in shown.lines
        assert 300 not in shown.lines


@pytest.mark.parametrize(
    ("width", "most", "heading"),
    [
        (77, 3, "question search 1 search 2 search 3 ans likely"),
        (77, 6, "question 1 2 3 4 5 6 ans likely"),
        (197, 1, "question search 1 answer likely"),
    ],
)
def test_headings_number_the_searches(width: int, most: int, heading: str) -> None:
    assert hop_heading(hop_columns(width, {}, most), 0).split() == heading.split()


@pytest.mark.parametrize("width", range(60, 200, 7))
def test_what_is_beyond_the_last_search_does_not_touch_the_answer(
    width: int, hunt_pages: Pages, hunted: Hunted
) -> None:
    row = planted(hunt_pages, hunted, "cut away")
    summary, line = hunt_pages.read([row])[0], lines(hunt_pages, [row])[0]
    columns = hop_columns(width, {}, 1)
    many = replace(line, hops=line.hops[:1] * (columns.visible + 1), answer="C")
    cells = hop_cells(summary, many, columns, {})
    texts = [text for text, _ in cells]
    assert texts[-3].rstrip() == "+1"
    assert texts[-3].endswith(" ")
    assert sum(map(len, texts)) <= width


async def test_a_search_is_looked_at_and_opened(pages: Pages) -> None:
    async with viewer(pages, "2", "right", row=6) as (app, pilot):
        shown = current(app, HopScreen)
        assert "search 2 of 3, in search" in shown.detail_text()
        assert "query 1" in shown.detail_text()
        assert "★  1. Chapter 1   gold, new, seen by read" in shown.detail_text()
        assert screen(app).splitlines()[2].split()[1:6] == ["agent", "question", "search", "1", "search"]
        await press(pilot, "w")
        assert app.attempt_list.row == 10
        await press(pilot, "right", "enter")
        assert app.screen is app.browse
        assert app.browse.tree_state is not None
        assert app.browse.tree_state.node.row.plain == "search “query 2” → 2, gold at 1"


async def test_an_attempt_without_searches_or_that_was_not_made(pages: Pages) -> None:
    async with viewer(pages, "2", row=0) as (app, pilot):
        assert "no search" in screen(app)
        await press(pilot, "down", "down", "down", "down", "down")
        assert "Not run yet." in screen(app)


async def test_what_a_run_writes_meanwhile_appears(store: Store, pages: Pages) -> None:
    async with viewer(pages, "2", row=5) as (app, pilot):
        shown = current(app, HopScreen)
        assert "Not run yet." in screen(app)
        with Store(store.home) as other:  # as another process would
            journal = making.Journal(other)
            journal._made = 1000  # keys that the store's calls do not have
            run = other.runs()[0]
            found = making.passages(7)
            events = [
                *making.step(0, "search", making.search_call(journal, "search", "what helps now", found)),
                *making.step(1, "answer", making.model_call(journal, "answer", found[0].text, "A")),
            ]
            other.add_attempts(run, [making.attempt(run, 5, events)], [making.score(5, False)])
            journal.close()
        shown.look()
        await settle(pilot)
        assert "what helps now" in screen(app)
        assert "ignored" in screen(app)


def test_where_gold_was_found_first_agrees_with_the_calls(hunt_pages: Pages) -> None:
    run = hunt_pages.runs[2]
    by_facts = gold_hops(hunt_pages, run)
    rows = [row for row in range(len(hunt_pages)) if row >= 400]
    for read in HopReader(hunt_pages).read(hunt_pages.read(rows)):
        first = next((hop.number for hop in read.hops if hop.gold_ranks), None)
        one = by_facts[read.summary.question.id, 0]
        assert (one.searches, one.hop) == (len(read.hops), first)


def test_gold_hops_without_facts_are_made_from_the_calls(pages: Pages) -> None:
    assert {one.searches for one in gold_hops(pages, pages.runs[1]).values()} == {3}


def test_the_hop_profile_has_the_shares_of_the_attempts(pages: Pages) -> None:
    run = pages.runs[1]
    made = hop_profile(pages.store, [run], {run.id: "ours"})
    assert made is not None
    assert [(mark.group, mark.name) for mark in made.marks] == [("ours", f"by search {at}") for at in (1, 2, 3)]
    hops = gold_hops(pages, run).values()
    by_second = sum(one.hop is not None and one.hop <= 2 for one in hops) / len(hops)
    assert made.marks[1].value == pytest.approx(by_second)


def test_runs_that_search_once_at_most_have_no_hop_profile(pages: Pages) -> None:
    single = [run for run in pages.runs if max(one.searches for one in gold_hops(pages, run).values()) < 2]
    assert hop_profile(pages.store, single) is None
