"""Many runs: which pairs are tested, at what cost, and what is said of the others."""

import json
import math
import re

import numpy as np
import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.compare import comparison as compared
from ragrounds.evals.compare.figures import MOST_PAIRS, chosen_pairs
from ragrounds.evals.compare.frontier import _undominated
from ragrounds.evals.stats import holm
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.chart_svg import svg
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import frontier_picture
from tests.compare.making import add_run, questions


def stage(home, count, size=6):
    """Runs ``run00``, ``run01``, …: run number n has n questions right, at most all."""
    asked = questions(size)
    with Store(home) as store:
        for number in range(count):
            right = [float(place < number) for place in range(size)]
            texts = {place: json.dumps({"answer_choice": "A" if value else "B"}) for place, value in enumerate(right)}
            add_run(store, f"run{number:02}", asked, right, cost_uncached=0.01 * (1 + number), texts=texts)


def told(result):
    (table,) = result.comparison.tables
    return [(pair.first, pair.second) for pair in table.pairs]


def test_each_against_a_baseline(home):
    stage(home, 5)
    found = rr.compare([f"run{n:02}" for n in (1, 3, 0)], baseline="run02")
    assert found.comparison.rows[0].run == "run02-run", "it joins the others where it was not named"
    assert told(found) == [("run02-run", f"run{n:02}-run") for n in (1, 3, 0)]
    assert found.comparison.notes == (
        "Differences are those to the baseline run02-run; Holm's correction is over these.",
    )
    assert told(rr.compare(["run01", "run03"], baseline="run03")) == [("run03-run", "run01-run")]
    grouped = rr.compare(["run01", "run03", "run04"], baseline="run03", group_by="dataset").comparison.tables[0]
    assert len(grouped.groups[0].groups[0].pairs) == 2


def test_holm_of_tests_that_were_picked():
    p = [0.001, 0.2, 0.004, 0.03, 0.9]
    whole = holm(p)
    for kept in ([0, 2], [1, 3], [0, 4], [2, 3, 4]):
        assert all(one >= whole[place] for one, place in zip(holm([p[place] for place in kept], 5), kept, strict=True))
    assert holm([0.01, 0.02], 10) == pytest.approx([0.1, 0.18])


def test_an_unknown_baseline_is_said(home):
    stage(home, 2, size=2)
    with pytest.raises(UserError, match="There is no run"):
        rr.compare(rr.runs(), baseline="run77")


def test_of_too_many_runs_none_are_paired_and_a_note_says_how():
    pairs, said = chosen_pairs([str(number) for number in range(51)])
    assert (pairs, math.comb(50, 2)) == ([], MOST_PAIRS)
    assert said.startswith("51 runs make 1,275 pairs, and at most 1,225 are tested")
    assert len(chosen_pairs([str(number) for number in range(50)])[0]) == MOST_PAIRS


def counted(monkeypatch, statements, home, count):
    """Pair tests and SQL statements of one comparison with a baseline."""
    stage(home, count, size=3)
    tests, real = [], compared.paired
    monkeypatch.setattr(compared, "paired", lambda *given, **more: tests.append(1) or real(*given, **more))
    names = list(rr.runs(home=home).ids)
    statements.clear()
    rr.compare(names, baseline=names[0], home=home)
    monkeypatch.undo()
    return len(tests), len(statements)


@pytest.mark.slow
def test_the_work_grows_with_the_runs_and_not_with_their_square(monkeypatch, statements, tmp_path):
    sizes = (5, 10, 30)
    found = [counted(monkeypatch, statements, tmp_path / str(size), size) for size in sizes]
    assert [tests for tests, _ in found] == [size - 1 for size in sizes]
    few, some, many = (statements for _, statements in found)
    assert many - some == 4 * (some - few), "as many statements for every further run"


def test_the_frontier_is_that_of_each_against_each():
    draw = np.random.default_rng(0)
    for decimals in (0, 1, 8):
        right, cost = draw.random((50, 12)).round(decimals), draw.random((50, 12)).round(decimals)
        right[3, 4] = np.nan
        beaten = np.zeros(right.shape, dtype=bool)
        for one in range(12):
            for other in range(12):
                no_worse = (right[:, other] >= right[:, one]) & (cost[:, other] <= cost[:, one])
                truly = (right[:, other] > right[:, one]) | (cost[:, other] < cost[:, one])
                beaten[:, one] |= no_worse & truly
        assert (_undominated(right, cost) == ~beaten).all()


@pytest.mark.slow
def test_a_picture_of_many_runs_names_those_on_the_frontier(home):
    stage(home, 40)
    comparison = rr.compare(rr.runs(), baseline="run00").comparison
    agents = agent_names(comparison)
    frontier = comparison.tables[0].frontier
    picture = frontier_picture(frontier, "strict", agents)
    kept = [point for point in frontier.points if point.on_frontier]
    others = [mark for mark in picture.marks if not mark.is_labelled]
    assert [mark.name for mark in picture.marks if mark not in others] == [agents[point.run] for point in kept]
    assert len(others) == 40 - len(kept)
    assert all(mark.low is None and mark.x_low is None for mark in others)
    drawn = svg(picture)
    assert "polyline" not in drawn
    assert f"each of the other {40 - len(kept)} runs" in drawn
    assert re.findall(r">(run\d+)</text>", drawn) == [agents[point.run] for point in kept] != [], (
        "named at their places"
    )
    assert "·" in draw(picture).plain
