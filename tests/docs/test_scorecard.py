"""docs/scripts/scorecard.py: every outcome that fits a scorecard is counted, and the page holds what comes of it."""

from __future__ import annotations

import sys
from itertools import permutations, product

import pytest

from tests.conftest import ROOT

sys.path.append(str(ROOT / "docs" / "scripts"))
import scorecard

MICRO = {
    "GPT-5.6 sol": 0.528, "Claude Opus 4.8": 0.407, "GPT-5.6 terra": 0.398, "GPT-5.6 luna": 0.370,
    "Claude Sonnet 5": 0.278, "GLM-5.2": 0.241,
}  # fmt: skip


def test_the_categories_give_the_means_that_were_published_beside_them() -> None:
    for model, categories in scorecard.PUBLISHED.items():
        trials = 0
        for tasks, (solved, mean) in zip(scorecard.TASKS.values(), categories, strict=True):
            made = scorecard.profiles(tasks, solved, mean)
            assert {sum(one) for one in made} == {tasks}
            (each,) = {sum(place * count for place, count in enumerate(one)) for one in made}
            trials += each
        assert round(trials / 3 / 36, 3) == MICRO[model]


@pytest.mark.parametrize(("first", "second"), [((2, 1, 1, 1), (1, 2, 0, 2)), ((0, 3, 1, 1), (4, 0, 0, 1))])
def test_every_way_in_which_tasks_can_meet_is_counted(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    ones = [place for place, count in enumerate(first) for _ in range(count)]
    twos = [place for place, count in enumerate(second) for _ in range(count)]
    wanted = set()
    for order in permutations(twos):
        steps = [two - one for one, two in zip(ones, order, strict=True)]
        wanted.add((sum(map(abs, steps)), sum(step**2 for step in steps)))
    found = scorecard.pairings(first, second)
    assert found.keys() == wanted
    for pairs in found.values():
        assert sorted(one for one, _ in pairs) == ones
        assert sorted(two for _, two in pairs) == twos


def test_what_was_solved_can_have_been_solved_in_these_trials_alone() -> None:
    split = product(range(11), repeat=3)
    every = [one for one in split if sum(one) == 9 and one[0] + 2 * one[1] + 3 * one[2] == 26]
    assert [one[1:] for one in scorecard.profiles(10, 0.9, 0.867)] == every


def test_the_page_holds_what_the_script_gives() -> None:
    assert scorecard.table() in scorecard.PAGE.read_text(encoding="utf-8")
