"""The frontier on a terminal: its size, its colours, costs that are lower bounds, and the reason if there is none."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.segment import Segment

from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.frontier import NO_FRONTIER, frontier_picture
from ragrounds.ui.pictures.named_points import series
from ragrounds.ui.tables.one_screen import print_one_screen
from tests.compare.making import add_run, questions

ASKED = questions(40)
NAMES = ("cheap", "middle", "dear", "worse")
HEAD = "percent right by dollars"


def compared(folder, **options) -> Comparison:
    with Store(folder) as store:
        return compare(store, [
            add_run(store, name, ASKED, [1] * right + [0] * (40 - right), cost_uncached=cost, **options)
            for name, right, cost in zip(NAMES, (8, 20, 36, 20), (0.001, 0.002, 0.003, 0.004), strict=True)
        ])  # fmt: skip


def picture_lines(made: Comparison, width: int, height: int) -> tuple[str, list[list[Segment]]]:
    """All that is printed, and the segments of the lines of the picture."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, record=True)
    print_one_screen(made, (), agent_names(made), console)
    segments = list(Segment.split_lines(console._record_buffer))
    texts = ["".join(segment.text for segment in line if not segment.control) for line in segments]
    first = next((index for index, text in enumerate(texts) if text.startswith(HEAD)), len(texts))
    return "\n".join(texts), segments[first:]


@pytest.mark.parametrize(("width", "height", "least"), [(80, 24, 5), (120, 40, 11), (200, 60, 15)])
def test_the_frontier_takes_the_lines_and_columns_that_are_free(tmp_path, width, height, least) -> None:
    _, lines = picture_lines(compared(tmp_path), width, height)
    texts = ["".join(segment.text for segment in line) for line in lines]
    frame = [text for text in texts if "│" in text[:8] or "┤" in text[:8]]
    assert len(frame) >= least
    assert {len(text) for text in texts if "┬─" in text} == {width - 1}
    assert all(len(text) <= width for text in texts if not text.startswith("Note: "))
    has_intervals = any("┴" in text for text in frame)
    assert has_intervals is (height > 24)


def test_no_name_on_it_is_dim(tmp_path) -> None:
    _, lines = picture_lines(compared(tmp_path), 120, 40)
    styles = {name: segment.style for line in lines for segment in line for name in NAMES if name in segment.text}
    letters = {(segment.text, segment.style) for line in lines for segment in line if segment.text in "►●▀▄⠛⣤"}
    assert letters
    assert not any(style and style.dim for style in (*styles.values(), *(style for _, style in letters)))


def test_a_cost_with_unknown_parts_is_at_least_and_keeps_its_point(tmp_path) -> None:
    text, _ = picture_lines(compared(tmp_path, unanswered=1), 120, 40)
    assert "≥ $0.30" in text
    assert "for at least $0.30 per 100 questions" in " ".join(text.split())
    assert "≥, ►: at least; 160 requests without an answer may be billed." in " ".join(text.split())
    assert "each additional right answer costs about $" in " ".join(text.split())
    assert "►" in text
    assert "costs at least this" not in text  # said once
    assert "► on the frontier" in text
    assert "▷ not on it" in text


def test_a_picture_that_is_missing_is_explained(tmp_path) -> None:
    with Store(tmp_path) as store:
        runs = [add_run(store, name, ASKED, [1] * 40, cost_uncached=None, model_calls=0) for name in NAMES]
        made = compare(store, runs, cost="cost_uncached")
    text, lines = picture_lines(made, 80, 24)
    assert not lines
    assert NO_FRONTIER in " ".join(text.split())
    assert "unknown: give prices in prices.toml, then `ragrounds ledger --reprice`" in " ".join(text.split())


def test_tokens_that_replies_did_not_name_are_explained(tmp_path) -> None:
    made = compared(tmp_path)
    rows = tuple(replace(row, usage=None) for row in made.rows)
    assert "tokens unknown" in picture_lines(replace(made, rows=rows), 120, 40)[0]
    for without in ({"model_calls": 0}, {"statuses": {"failed": 40}}, {"origin": "imported"}):
        shown = tuple(replace(row, **without) for row in rows)
        assert "tokens unknown" not in picture_lines(replace(made, rows=shown), 120, 40)[0]


def test_the_colour_of_an_agent_does_not_depend_on_its_cost(tmp_path) -> None:
    made = compared(tmp_path)
    frontier = made.shown_tables()[0][0].frontier
    assert frontier is not None
    names = dict(reversed(agent_names(made).items()))
    assert list(series(frontier_picture(frontier, "strict", names))) == list(names.values())
