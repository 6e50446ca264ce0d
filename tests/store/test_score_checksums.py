"""A score is what was written, or its damage is named: it is never shown."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Score
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.database import open_source
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.extensions.exchange.transfer import choose_runs, copy_runs
from tests.compare.making import add_run, questions
from tests.conftest import Cli

DAMAGE = {
    "value": "value = 1.0 - value",
    "epoch": "epoch = 1",
    "scorer": "scorer = 'strict'",
    "checksum": "checksum = x'00000000'",
    "no checksum": "checksum = x''",
    "a text as value": "value = 'one'",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_changed_in_a_score_is_named_and_not_shown(tmp_path: Path, kind: str) -> None:
    with Store(tmp_path) as store:
        run = add_run(store, "direct", questions(4), [1, 0, 1, 0], scorer="robust")
        assert len(store.scores(run)) == 4
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection, connection:
        changed = connection.execute(f"UPDATE scores SET {DAMAGE[kind]} WHERE question_id LIKE '%/2'")
        assert changed.rowcount == 1
    with Store(tmp_path) as store:
        for read in (lambda: store.scores(run), lambda: list(store.stream_scores(run))):
            with pytest.raises(DamagedRecord, match=rf"the score of {run.id} by .* for the question '.*/2', epoch"):
                read()
        if kind not in ("scorer", "epoch"):
            listed = Pages(store, [run], ["robust"]).read(range(4))
            assert [row.value for row in listed] == [1, 0, None, 0]
            assert "damaged" in listed[2].prediction
    with open_source(str(tmp_path / "store.sqlite")) as source, Store(tmp_path / "other") as other:
        with pytest.raises(UserError, match=r"scores of .*: (the score of|scores.value|1 of them)"):
            copy_runs(source, other.engine, choose_runs(source, []), FINAL)
        assert other.runs() == []


@pytest.mark.parametrize("value", [0, 1, 7, 0.1, -0.0, 1e-300, 1e300, None, 1 / 3, 2**53])
def test_every_value_is_read_as_it_was_written(tmp_path: Path, value: float | None) -> None:
    with Store(tmp_path) as store:
        run = add_run(store, "direct", questions(2), [1, 0])
        (first,) = (one for one in store.scores(run) if one.question_id.endswith("/0"))
        odd = Score(
            question_id=first.question_id,
            epoch=0,
            scorer="mine",
            value=value,
            answer_status="answered",
            prediction="医\0\ud800",
            reason="\n",
        )
        store.add_scores(run, [odd])
        (read,) = store.scores(run, "mine")
        assert read.value == value


@pytest.mark.slow
def test_scoring_again_mends_what_was_damaged(command: Cli, home: Path) -> None:
    assert command("run", "--agent", "direct", "--limit", "3", "--display", "none").returncode == 0
    before = command("compare", "direct", "--json").stdout
    with closing(sqlite3.connect(home / "store.sqlite")) as connection, connection:
        connection.execute(
            "UPDATE scores SET value = 1.0 - value WHERE question_id = (SELECT min(question_id) FROM scores)"
        )
    for line in (("compare", "direct"), ("compare", "direct", "--json"), ("runs", "show", "direct")):
        refused = command(*line)
        assert refused.returncode == 2
        assert "is damaged: the score of direct-" in refused.stderr
        assert "ragrounds score direct-" in refused.stderr
    assert command("score", "direct").returncode == 0
    assert command("compare", "direct", "--json").stdout == before
