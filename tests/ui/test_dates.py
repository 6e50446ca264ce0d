"""What is said to be UTC is UTC, wherever the machine stands."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ragrounds.base.records import Run
from ragrounds.extensions.publishing.board import day
from ragrounds.tools.index.index_details import IndexDetails, IndexVersion
from ragrounds.ui.report.citation import citations
from ragrounds.ui.report.sections import fingerprint_section
from ragrounds.ui.tables.comparison_words import span_of_days
from ragrounds.ui.tables.index_lines import details_lines

EVENING = 1_767_207_600.0
"""New Year's Eve of 2025, 19:00 UTC: the day and the year after in Tokyo."""


@pytest.fixture(autouse=True)
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert time.localtime(EVENING).tm_year == 2026
        yield
    time.tzset()


def made() -> Run:
    given = {"agent": "direct", "benchmark": "sample", "questions": "q", "fingerprint": "f", "identity": {}}
    return Run(id="r", count=1, epochs=1, created=EVENING, **given)  # type: ignore[arg-type]


def test_days_of_the_report_and_of_the_leaderboard() -> None:
    assert span_of_days([EVENING]) == "on 2025-12-31"
    assert day(EVENING) == "2025-12-31"
    assert "2025-12-31 19:00 UTC" in fingerprint_section([made()], lambda text: text)
    assert "(2025)" in next(citations([made()], [])).text


def test_when_an_index_was_built() -> None:
    version = IndexVersion(version="v", documents=1, passages=1, built=EVENING, bytes=1)
    lines = details_lines(IndexDetails(name="i", manifest=None, engines=(), bytes=1, versions=(version,)))
    assert any("2025-12-31 19:00 UTC" in line for line in lines)
