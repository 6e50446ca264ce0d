"""What the tests of the search tools share."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # no test here is timed
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data."""
    given = os.environ.get("RAGROUNDS_TEST_DATA")
    if not given:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA")
    return Path(given)


@pytest.fixture
def beir(tmp_path):
    """Write a BEIR folder: `beir([(id, title, text), …])` gives the corpus text that names it."""

    def write(rows, name="tiny"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"_id": i, "title": title, "text": text}, ensure_ascii=False) for i, title, text in rows]
        (folder / "corpus.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return f"beir:{folder}"

    return write
