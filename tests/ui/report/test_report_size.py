"""The report of MIRAGE's questions, made of the authors' own predictions: complete, and smaller than the bar."""

import sqlite3

import pytest
import zstandard

from tests.conftest import succeeded
from tests.ui.report.test_report import blocks

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.mark.parametrize(("dataset", "count"), [("/medqa", 1273), pytest.param("", 7663, marks=pytest.mark.weekly)])
def test_all_attempts_are_inside_and_the_page_is_at_most_three_times_the_compressed_store(
    command, home, data, tmp_path, dataset, count
):
    predictions = data / "mirage/predictions/gpt-35-turbo-16k_cot.jsonl.gz"
    benchmark = f"mirage{dataset}:{data / 'mirage/benchmark.json'}"
    succeeded(command("import", "--format", "mirage-predictions", str(predictions), "--benchmark", benchmark))
    page = tmp_path / "report.html"
    succeeded(command("report", "gpt", "--out", str(page)))
    compact = tmp_path / "compact.sqlite"
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("VACUUM INTO ?", (str(compact),))
    store = len(zstandard.ZstdCompressor(level=3).compress(compact.read_bytes()))
    assert page.stat().st_size <= 3 * store
    found = blocks(page)
    question, chunk, place = (found["index"]["columns"][name] for name in ("question", "chunk", "place"))
    assert len(question) == count
    inside = {
        found[f"chunk-{chunk[row]}"]["attempts"][place[row]]["id"] == found["index"]["questions"][question[row]][0]
        for row in range(len(question))
    }
    assert inside == {True}
