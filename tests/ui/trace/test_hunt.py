"""The scavenger hunt: every planted cause is derived from what stands in the store, and nothing else is wrong."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from ragrounds.evals.store.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages

WORDS = {
    "never retrieved": "never found",
    "cut away": "cut away",
    "ignored": "ignored",
    "drift": "drifted",
    "failed search": "search failed",
    "judge's error": "misjudged",
}


def hunt() -> ModuleType:
    """docs/hunt.py, which is a script and no module of the package."""
    file = Path(__file__).parents[3] / "docs" / "hunt.py"
    spec = importlib.util.spec_from_file_location("hunt", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["hunt"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[tuple[str, str], str], list[HopsOfAttempt]]:
    """What was planted, and every attempt of the store."""
    folder = tmp_path_factory.mktemp("hunt")
    planted = asyncio.run(hunt().make(folder))
    with Store(folder) as store:
        pages = Pages(store, store.runs(), ("equivalent", "strict"))
        return planted, HopReader(pages).read(pages.read(range(len(pages))))


def test_each_planted_cause_is_the_one_that_is_derived(
    made: tuple[dict[tuple[str, str], str], list[HopsOfAttempt]],
) -> None:
    planted, read = made
    assert len(read) == 600
    derived = {
        (one.summary.run.agent, one.summary.question.id): one.cause.word for one in read if one.cause is not None
    }
    assert derived == {place: WORDS[cause] for place, cause in planted.items()}
    assert set(Counter(planted.values()).values()) == {24}


def test_right_attempts_bear_signs_of_trouble_too(
    made: tuple[dict[tuple[str, str], str], list[HopsOfAttempt]],
) -> None:
    right = [one for one in made[1] if one.cause is None]
    assert all(one.summary.value == 1 for one in right)
    assert any(hop.repeats is not None for one in right for hop in one.hops)
    assert any(call.call.faults for one in right for call in one.calls)
    assert any(one.hops[0].gold_ranks == () for one in right)
