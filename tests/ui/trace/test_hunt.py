"""The scavenger hunt: every planted cause is derived from what stands in the store, and nothing else is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ragrounds.evals.store.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.store.summaries import Pages

WORDS = {
    "never retrieved": "never found",
    "cut away": "cut away",
    "ignored": "ignored",
    "drift": "drifted",
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


def test_right_attempts_bear_signs_of_trouble_too(read: list[HopsOfAttempt]) -> None:
    right = [one for one in read if one.cause is None]
    assert all(one.summary.value == 1 for one in right)
    assert any(hop.repeats is not None for one in right for hop in one.hops)
    assert any(call.call.faults for one in right for call in one.calls)
    assert any(one.hops[0].gold_ranks == () for one in right)
