"""Parquet, read again with pyarrow."""

import pytest

from ragrounds.evals.exchange.parquet import write_parquet
from tests.compare.making import add_run, questions

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'ragrounds[export]'")


def test_a_row_an_attempt_with_scores_as_columns(store, run, tmp_path):
    other = add_run(store, "long", questions(2, "y/long"), [0.5, None], scorer="facts", cost_uncached=None, usage=None)
    path = tmp_path / "runs.parquet"
    assert write_parquet(store, [run, other], path) == 5
    rows = parquet.read_table(path).to_pylist()
    first = rows[0]
    assert (first["run"], first["question_id"], first["subject"], first["gold"]) == (run.id, "x/one/0", "heart", "A")
    assert (first["strict_score"], first["strict_answer_status"], first["facts_score"]) == (1.0, "answered", None)
    assert first["nodes"] == ["retrieve", "answer"]
    assert (first["input_tokens"], first["cost_uncached"]) == (100, 0.02)
    assert [row["status"] for row in rows] == ["completed", "completed", "failed", "completed", "completed"]
    assert [row["facts_score"] for row in rows[3:]] == [0.5, None]
    assert rows[3]["cost_uncached"] is None
