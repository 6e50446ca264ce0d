"""Which figure stands where: one store whose every figure differs, so that one in a neighbour's place is seen."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from ragrounds.base.records import Attempt, Gold, Run, Score, Usage
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.compare.overview import run_overviews
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.engine.progress import ReplayProgress, RunProgress
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import HopsOfAttempt
from ragrounds.evals.trace.hops import hops_of
from ragrounds.evals.trace.summaries import Pages
from ragrounds.extensions.publishing import index_page as index_page_module
from ragrounds.extensions.publishing.board import Board, BoardRanking
from ragrounds.extensions.publishing.index_page import index_page
from ragrounds.extensions.publishing.leaderboard import rank
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.facts import ProgressGatherer
from ragrounds.ui.progress.frame import frame
from ragrounds.ui.report.page import report_page
from ragrounds.ui.tables import one_screen, run_tables
from ragrounds.ui.tables.comparison_columns import LISTED, TOTALS
from ragrounds.ui.tables.comparison_tables import comparison_tables, interval
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.one_screen import summary_table
from ragrounds.ui.tables.run_tables import runs_table
from ragrounds.ui.tables.table_layout import TextTable
from ragrounds.ui.text import dollars, duration, percent, tokens
from ragrounds.ui.trace.hop_lines import hop_cells, hop_columns, hop_heading, hop_line
from tests.compare.making import add_run, questions
from tests.store.test_causes import model, passage, search
from tests.ui.drawn import drawn_lines
from tests.ui.report.figures import sheets
from tests.ui.trace.seeing import screen, viewer

LARGE, SMALL = 23, 14
ASKED = [*questions(LARGE, "x/large"), *questions(SMALL, "x/small")]
GOLDS = {one.id: Gold(question_id=one.id, answer="A") for one in ASKED}
RIGHT = {"one": (7, 9), "two": (12, 2), "three": (17, 6)}
"""Right answers in the large and in the small dataset. Fewer by `strict`, more by `mirage`; the last ones failed."""
FAILED, ABSTAINED = {"one": 2, "two": 5, "three": 4}, {"one": 1, "two": 3, "three": 6}


def made(name: str) -> list[tuple[Attempt, list[Score]]]:
    place = list(RIGHT).index(name) + 1
    found = []
    for number, question in enumerate(ASKED):
        at, right = (number, RIGHT[name][0]) if number < LARGE else (number - LARGE, RIGHT[name][1])
        failed = number >= len(ASKED) - FAILED[name]
        abstained = not failed and number >= len(ASKED) - FAILED[name] - ABSTAINED[name]
        attempt = Attempt(
            run=f"{name}-run", question_id=question.id, epoch=0, status="failed" if failed else "completed",
            text="The answer is A.", usage=Usage(210 * place + 3, 17 * place), cost_paid=0.01 * place,
            cost_uncached=0.0137 * place + 0.0002, seconds=0.41 * place, model_calls=place + 2, searches=place + 5,
        )  # fmt: skip
        scores = [
            Score(
                question_id=question.id, epoch=0, scorer=scorer, value=float(at < right + more),
                answer_status="empty" if failed else "abstained" if abstained else "answered",
            )
            for scorer, more in (("robust", 0), ("strict", -1), ("mirage", 1))
        ]  # fmt: skip
        found.append((attempt, scores))
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory):
    with Store(tmp_path_factory.mktemp("figures")) as opened:
        add_runs(opened)
        yield opened


def add_runs(store: Store) -> None:
    for place, name in enumerate(RIGHT):
        run = Run(
            id=f"{name}-run", agent=name, benchmark="x", questions=content_version(ASKED, GOLDS), count=len(ASKED),
            epochs=1, fingerprint=name, identity={"models": {"model": f"test:{name}"}}, created=86400.0 * place,
        )  # fmt: skip
        store.add_run(run, ASKED, GOLDS)
        ended = made(name)
        store.add_attempts(run, [one for one, _ in ended], [score for _, scores in ended for score in scores])


@pytest.fixture(scope="module")
def compared(store: Store) -> Comparison:
    return compare(store, [store.run(f"{name}-run") for name in RIGHT])


def by_hand(name: str) -> dict[str, str]:
    """The figures of a run, as tables have them."""
    place, (large, small), count = list(RIGHT).index(name) + 1, RIGHT[name], len(ASKED)

    def average(more: int, failed: int = 0) -> str:
        return percent(((large + more) / LARGE + (small + more + failed) / SMALL) / 2)

    return {
        "large": percent(large / LARGE), "small": percent(small / SMALL), "average": average(0),
        "pooled": percent((large + small) / count), "strict": average(-1), "mirage": average(1),
        "at best": average(0, FAILED[name]), "n": str(count), "failed": str(FAILED[name]),
        "abstained": str(ABSTAINED[name]), "answered": str(count - FAILED[name] - ABSTAINED[name]),
        "model calls": str(count * (place + 2)), "searches": str(count * (place + 5)),
        "in": tokens(count * (210 * place + 3)), "out": tokens(count * 17 * place),
        "paid": dollars(count * 0.01 * place), "full price": dollars(count * (0.0137 * place + 0.0002)),
        "time": duration(0.41 * place), "tokens": tokens(count * (227 * place + 3)),
    }  # fmt: skip


def rows_of(table: TextTable) -> dict[str, dict[str, str]]:
    heads = [column.name for column in table.columns]
    return {row[heads.index("agent")]: dict(zip(heads, row, strict=True)) for row in table.rows}


def wrong(shown: Mapping[str, str], name: str) -> dict[str, tuple[str, str]]:
    """The columns that show another figure than the one of their name."""
    expected = by_hand(name)
    assert set(shown) & set(expected)
    return {
        head: (cell, expected[head])
        for head, cell in shown.items()
        if head in expected and cell.partition(" (")[0] != expected[head]
    }


def test_every_figure_of_the_store_differs() -> None:
    every = [figure for name in RIGHT for head, figure in by_hand(name).items() if head != "n"]
    assert len(every) == len(set(every))


def test_in_tables(compared: Comparison) -> None:
    scores, outcomes = (one for one in comparison_tables(compared) if one.key in ("scores", "outcomes"))
    own = {"model calls", "searches", "in", "full price"}
    for table, heads in ((scores, {"at best", "pooled", "strict"}), (outcomes, own)):
        shown = rows_of(table)
        assert set(shown) == set(RIGHT)
        assert heads < set(shown["one"])
        assert {name: wrong(shown[name], name) for name in RIGHT} == {name: {} for name in RIGHT}


def test_on_the_first_screen(compared: Comparison) -> None:
    """What `compare` prints where nothing else is asked for: the cost of 100 questions, the tokens of one."""
    shown = [table for table, _ in compared.shown_tables(())]
    table = summary_table(compared, shown, {f"{name}-run": name for name in RIGHT})
    for place, name in enumerate(RIGHT, 1):
        row, figures = rows_of(table)[name], by_hand(name)
        price = dollars(100 * (0.0137 * place + 0.0002))
        assert (row["robust"], row["$/100"], row["time"]) == (figures["average"], price, figures["time"])
        assert row["tokens"] == tokens(227 * place + 3)


async def test_a_listed_column_is_in_every_list(
    store: Store, compared: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of `comparison_columns` is all that a column of every list needs."""
    added = next(column for column in TOTALS if column.name == "model_calls")
    for module in (one_screen, run_tables):
        monkeypatch.setattr(module, "LISTED", [*LISTED, msgspec.structs.replace(added, spare=9)])
    monkeypatch.setattr(index_page_module, "_TOTALS", [added])
    expected = {name: by_hand(name)["model calls"] for name in RIGHT}
    table = summary_table(compared, [compared.tables[0]], {f"{name}-run": name for name in RIGHT})
    listed = runs_table(run_overviews(store, store.runs(), {}), 0.0)
    assert {name: row["model calls"] for name, row in rows_of(table).items()} == expected
    assert {name: row["model calls"] for name, row in rows_of(listed).items()} == expected
    page = "".join(report_page(store, [store.run(row.run) for row in compared.rows], compared))
    (ranking,) = rank(store, store.runs()).rankings
    board = Board(title="t", published_at=0.0, mode="none", rankings=(
        BoardRanking(ranking=ranking, page="a.html", attempts={}, free=frozenset()),), studies=())  # fmt: skip
    for html in (page, "".join(index_page(board))):
        sheet = sheets(html)[0]
        at = sheet.heads.index("model calls")
        assert set(expected.values()) <= {row[at] for row in sheet.rows}
    with Store(tmp_path) as own:  # the screen scores answers again
        add_runs(own)
        async with viewer(own) as (app, _):
            lines = [line.rstrip("│ ") for line in screen(app).splitlines()]
            assert any(line.endswith(" model calls") for line in lines)
            for name, text in expected.items():
                assert any(f" {name} " in line and line.endswith(f" {text}") for line in lines), lines


def test_in_pairs(compared: Comparison) -> None:
    (table,) = [one for one in comparison_tables(compared) if one.key == "pairs"]
    heads = [column.name for column in table.columns]
    rights = {name: [scores[0].value for _, scores in made(name)] for name in RIGHT}
    for row in table.rows:
        second, first = row[0].split(" - ")
        both = list(zip(rights[first], rights[second], strict=True))
        shown = dict(zip(heads, row, strict=True))
        assert shown["only 2nd right"] == str(sum(a < b for a, b in both))
        assert shown["only 1st right"] == str(sum(a > b for a, b in both))
        apart = float(by_hand(second)["average"]) - float(by_hand(first)["average"])
        assert float(shown["difference"]) == pytest.approx(apart, abs=0.011)
    assert len({cell for row in table.rows for cell in row[1:]}) >= 2 * len(table.rows)


def test_in_a_leaderboard(store: Store) -> None:
    (ranking,) = rank(store, store.runs()).rankings
    board = Board(title="t", published_at=0.0, mode="none", rankings=(
        BoardRanking(ranking=ranking, page="a.html", attempts={}, free=frozenset()),), studies=())  # fmt: skip
    (sheet,) = sheets("".join(index_page(board)))
    named = [re.split(r",| ", head)[0] for head in sheet.heads]
    for row in sheet.rows[1:]:
        cells = dict(zip(named, row, strict=True))
        name = next(one for one in RIGHT if cells["agent"].startswith(one))
        line = next(one for one in ranking.comparison.tables[0].lines if one.run == f"{name}-run")
        assert cells["95"].replace("–", "-").endswith(interval(line.overall, "percent").replace("–", "-"))
        assert cells["model"] == f"test:{name}"
        assert wrong({"average" if head == "robust" else head: cell for head, cell in cells.items()}, name) == {}


def test_on_the_screen_of_a_run(store: Store) -> None:
    progress = ReplayProgress(store, [], {})
    for name in RIGHT:
        counts = progress.runs[f"{name}-run"] = RunProgress(
            name, len(ASKED), LiveScore(ASKED, GOLDS), before=len(ASKED)
        )
        for attempt, scores in made(name):
            counts.count(attempt, [] if attempt.status == "failed" else scores)
    found = frame(ProgressGatherer(progress).gather(last=True), 200, 40)
    lines = drawn_lines(SafeConsole(file=io.StringIO(), force_terminal=True, no_color=True, color_system=None),
                        found, 200, 40)  # fmt: skip
    at = next(place for place, line in enumerate(lines) if line.startswith("agent"))
    heads = re.split(r"  +", lines[at].strip())
    assert {"average", "pooled", "n", "answered", "failed", "abstained", "tokens", "full price"} < set(heads)
    for name, line in zip(RIGHT, lines[at + 1 :], strict=False):
        cells = dict(zip(heads, re.split(r"  +", line.strip()), strict=True))
        assert cells["agent"] == name
        assert wrong(cells, name) == {}


def test_in_the_line_of_hops(store: Store) -> None:
    calls = [
        search("first", passage("a"), passage("b")),
        search("second", passage("c"), passage("d"), passage("gold")),
        search("third", *(passage(name) for name in "efgh")),
        model("What is it?"),
    ]
    gold = Gold(question_id=ASKED[0].id, answer="A", documents=("gold",))
    summary = Pages(store, store.runs()).read([0])[0]
    line = hop_line(HopsOfAttempt(summary=summary, attempt=made("one")[0][0], calls=tuple(calls),
                                  hops=hops_of(calls, gold)))  # fmt: skip
    columns = hop_columns(160, {}, 3)
    for first in (0, 1):
        heading = hop_heading(columns, first)
        text = "".join(part for part, _ in hop_cells(summary, line, columns, {}, first))
        for number, (query, count) in enumerate((("first", 2), ("second", 3), ("third", 4)), 1):
            if number > first and f"search {number}" in heading:
                cell = text[heading.index(f"search {number}") :][: columns.hop]
                assert cell.startswith(query)
                assert re.search(r"(\d+)", cell.removeprefix(query)).group() == str(count)  # type: ignore[union-attr]
                assert ("★3" in cell) == (number == 2)


def test_a_server_that_died_stands_in_the_first_line(tmp_path: Path) -> None:
    with Store(tmp_path) as opened:
        ended = dict.fromkeys(range(12, 27), "failed")
        run = add_run(opened, "one", questions(27), [1] * 3 + [0] * 9 + ["unscored"] * 15, status=ended)
        (line,) = verdict_lines(compare(opened, [run]), (), {run.id: "one"})
    assert line == (
        "strict: one has 11.11 % (95 %: 3.0 to 28.9), 27 questions; 15 of 27 attempts failed, at best 66.67."
    )
