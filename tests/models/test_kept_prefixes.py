"""How many attempts at once are let in: as many as a server's prefix cache holds what they begin with of."""

from __future__ import annotations

import pytest

from ragrounds.base.records import Usage
from ragrounds.evals.engine.scheduler import AttemptSemaphore
from ragrounds.models.kept_prefixes import AskedPrompts, KeptPrefixes
from ragrounds.models.traffic import ResizableSemaphore


def attempt(kept: KeptPrefixes, places: ResizableSemaphore, fits: int, calling: int) -> None:
    """Eight calls, each with all of the one before; the server has that if no more than `fits` are in flight."""
    asked, text = AskedPrompts(kept), "reasoning " * 200
    for _ in range(8):
        there = places.taken <= fits and len(text) > 2000
        asked.answered("m", text, Usage(input=len(text) // 4, cached=len(text) // 5 if there else 16), calling)
        text += "and further " * 20


def settled(fits: int, most: int, calling: int = 1000, attempts: int = 600) -> list[int]:
    """The places after each attempt."""
    places = ResizableSemaphore(most)
    kept, counts = KeptPrefixes(places), []
    for _ in range(attempts):
        places.taken = places.count
        attempt(kept, places, fits, calling)
        kept.ended()
        counts.append(places.count)
    return counts


@pytest.mark.parametrize("fits", [10, 23, 50])
def test_as_many_as_fit_are_let_in(fits: int) -> None:
    last = settled(fits, 64)[-200:]
    assert fits - 8 <= sum(last) / len(last) <= fits + 1, last


def test_where_all_fit_or_fewer_would_not_help_all_are_let_in() -> None:
    assert settled(1000, 64, attempts=60)[-1] == 64
    assert settled(0, 64)[-1] == 64  # not even a few fit
    assert settled(10, 64, calling=1, attempts=100)[-1] == 64  # they are at something else than the server
    semaphores = [AttemptSemaphore(64, models) for models in ([], ["openai:m"], ["openai:m", "vllm:m"])]
    assert [(places.count, places.kept_prefixes is None) for places in semaphores] == [
        (64, True),
        (64, True),
        (8, False),
    ]


def test_a_server_that_says_nothing_of_its_cache_slows_nobody() -> None:
    places = ResizableSemaphore(64)
    kept = KeptPrefixes(places)
    for _ in range(60):
        asked = AskedPrompts(kept)
        for size in (1000, 2000, 3000):
            asked.answered("m", "x" * size * 4, Usage(input=size), 64)
        kept.ended()
    assert places.count == 64
