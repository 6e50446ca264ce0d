"""A damaged record is named where it would stand; everything else can be looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.loaded import LoadedAttempt
from tests.ui.trace.seeing import viewer


@pytest.mark.slow
async def test_every_view_opens_over_a_damaged_attempt_and_a_damaged_score(quiz: Path, tmp_path: Path) -> None:
    shutil.copytree(quiz, tmp_path / "home")
    with Store(tmp_path / "home") as store:
        runs = store.runs()
        with store.engine.begin() as connection:
            first = sa.and_(schema.attempts.c.run == store.number(runs[0]), schema.attempts.c.question_id == "quiz/000")
            connection.execute(sa.update(schema.attempts).where(first).values(body=b"garbage"))
            second = sa.and_(schema.scores.c.run == store.number(runs[0]), schema.scores.c.question_id == "quiz/001")
            connection.execute(sa.update(schema.scores).where(second).values(value=0.25))
        pages = Pages(store, runs)
        for row in (0, 1):
            loaded = LoadedAttempt(pages, pages.read([row])[0])
            shown = "\n".join(block.text for block in detail(loaded, loaded.root))
            assert "damaged" in shown, shown
            assert "ragrounds doctor --store" in shown
        async with viewer(pages) as (app, pilot):
            for key in ("down", "up", "tab", "2", "down", "escape", "3", "down", "escape", "4", "escape", "w", "e"):
                await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause()
        assert app.return_code in (None, 0)
