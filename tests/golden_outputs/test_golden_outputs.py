"""What commands and calls give is what they gave.

Data hold until a change is named in its commit; words may be made anew on purpose: `scenario` says how.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden_outputs.scenario import DATA, DATA_OUTPUTS, WORD_OUTPUTS, WORDS, outputs

Made = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Made:
    """All outputs, made once for all processes of the session."""
    shared = tmp_path_factory.getbasetemp().parent if worker_id != "master" else tmp_path_factory.getbasetemp()
    kept = shared / "golden_outputs.json"
    with (shared / "golden_outputs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(outputs(tmp_path_factory.mktemp("golden"))))
    found: Made = json.loads(kept.read_text())
    return found


@pytest.mark.parametrize("name", DATA_OUTPUTS)
def test_data_are_what_they_were(made: Made, name: str) -> None:
    assert made["data"][name] == json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WORD_OUTPUTS)
def test_words_are_what_they_were(made: Made, name: str) -> None:
    assert made["words"][name] == (WORDS / f"{name}.txt").read_text(encoding="utf-8")


def test_nothing_is_kept_that_nothing_gives() -> None:
    kept = {path.stem for folder in (DATA, WORDS) for path in Path(folder).iterdir()}
    assert kept == {*DATA_OUTPUTS, *WORD_OUTPUTS}
