"""The scavenger hunt: every planted cause is derived from what stands in the store, and nothing else is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ragrounds.evals.trace.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.trace.summaries import Pages
from tests.ui.trace.seeing import press, screen, viewer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")]

WORDS = {
    "never retrieved": "never found",
    "cut away": "not shown",
    "ignored": "ignored",
    "drift": "never found",
    "failed search": "search failed",
    "judge's error": "misjudged",
}


@pytest.fixture
def read(hunt_pages: Pages) -> list[HopsOfAttempt]:
    return HopReader(hunt_pages).read(hunt_pages.read(range(len(hunt_pages))))


def test_each_planted_cause_is_the_one_that_is_derived(
    read: list[HopsOfAttempt], hunted: tuple[Path, dict[tuple[str, str], str]]
) -> None:
    planted = hunted[1]
    assert len(read) == 600
    derived = {
        (one.summary.run.agent, one.summary.question.id): one.cause.word for one in read if one.cause is not None
    }
    assert derived == {place: WORDS[cause] for place, cause in planted.items()}
    assert set(Counter(planted.values()).values()) == {24}


def one_of_each(pages: Pages, planted: dict[tuple[str, str], str]) -> dict[str, int]:
    """Cause → the place of an attempt in which it is planted, of an agent with several searches where there is one."""
    agents = [run.agent for run in pages.runs]
    places: dict[str, int] = {}
    for (agent, question), cause in sorted(planted.items()):
        row = pages.row_of(agents.index(agent), question)
        if row is not None and (agent == "search_o1" or cause not in places):
            places[cause] = row
    return places


async def test_one_key_names_each_cause_on_the_smallest_terminal(
    hunt_pages: Pages, hunted: tuple[Path, dict[tuple[str, str], str]]
) -> None:
    async with viewer(hunt_pages, size=(80, 24)) as (app, pilot):
        for cause, row in one_of_each(hunt_pages, hunted[1]).items():
            app.attempt_list.move(row)
            await press(pilot, "2")
            shown = screen(app)
            assert [line for line in shown.splitlines() if WORDS[cause] in line], (cause, shown)
            assert f"likely {WORDS[cause]}: " in " ".join(shown.replace("│", " ").split()), (cause, shown)
            await press(pilot, "1")
