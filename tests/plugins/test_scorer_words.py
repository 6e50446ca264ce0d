"""The words of a scorer that is not here: kept with its scores, moved with them, and never believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragrounds.evals.scorers import catalogue, described
from ragrounds.evals.scorers.words import recall_words
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import upsert
from ragrounds.evals.store.row_sums import summed_meta
from ragrounds.evals.store.store import Store
from tests.conftest import Cli

SCORER = Path(__file__).parent / "packages" / "scorer" / "brevity.py"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("_NAMED", "_TOLD", "_PATHS"):
        monkeypatch.setattr(catalogue, known, {})


def forget() -> None:
    for known in (catalogue._NAMED, catalogue._TOLD, catalogue._PATHS):
        known.clear()


def test_words_of_unknown_origin_are_not_believed(tmp_path: Path) -> None:
    words = {"name": "odd", "summary": "\x1b[2J two\nlines " + "x" * 5000, "method": "m", "kinds": ["choice"]}
    rows = {
        "scorer:odd": json.dumps(words),
        "scorer:robust": json.dumps({**words, "name": "robust", "direction": "lower"}),
        "scorer:other": json.dumps(words),
        "scorer:broken": "{",
        "scorer:strange": json.dumps({**words, "name": "strange", "direction": "sideways"}),
    }
    with Store(tmp_path / "home") as store:
        with store.engine.begin() as writing:
            made = [summed_meta(key, value) for key, value in rows.items()]
            writing.execute(upsert(store.engine, schema.meta), made)
        recall_words(store)
    assert described("robust").direction == "higher"
    assert described("odd").summary.startswith("<U+001B>[2J two lines xxx")
    assert len(described("odd").summary) < 300
    for name in ("other", "broken", "strange"):
        assert described(name).unit == catalogue.NO_UNIT


def test_they_travel_with_runs(command: Cli, tmp_path: Path) -> None:
    assert command("run", "--agent", "direct", "--limit", "2", "--display", "none").returncode == 0
    assert command("score", "direct", "--scorer", f"{SCORER}:BREVITY").returncode == 0
    assert command("export", "store", "--out", "runs.ragrounds").returncode == 0
    forget()
    there = {"RAGROUNDS_HOME": str(tmp_path / "there")}
    assert command("import", "--format", "store", "runs.ragrounds", **there).returncode == 0
    shown = command("compare", "direct", "--full", **there)
    assert "brevity (words)" in shown.stdout
    assert "not here" not in shown.stdout + shown.stderr
