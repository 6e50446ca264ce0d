"""Which answers rest on listed documents: planted retractions, labels, evidence that conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from tests.extensions.counterfactual.conftest import N, Parents


def listed(runs: Parents, agent: str, file: Path, text: str) -> Any:
    file.write_text(text)
    return rr.analyse("listed", runs.ids[agent], documents=str(file), home=runs.home).result


def test_planted_retractions_are_traced_to_every_answer_that_rests_on_them(
    stored_runs: Parents, tmp_path: Path
) -> None:
    (record,) = listed(stored_runs, "vanilla_rag[top_k=1]", tmp_path / "retracted.csv", "id\nd1\nd2\nd777\n").record
    assert (record.listed, record.label) == (4, "")  # `id` stands above no digits, and is taken for an id
    assert record.attempts == {"q/q1#0": ("d1",), "q/q2#0": ("d2",)}
    assert (record.found.value, record.shown.value) == (2 / N, 2 / N)
    assert record.right_with.value == 1.0


def test_labels_say_what_evidence_is_one_sided_and_where_it_conflicts(stored_runs: Parents, tmp_path: Path) -> None:
    file, agent = tmp_path / "stance.csv", "vanilla_rag[top_k=3]"
    rows = [f"d{place},{'supports' if place < 8 else 'refutes'},\n" for place in range(N)]
    result = listed(stored_runs, agent, file, "".join(["document,label,question\n", *rows, "d4,neutral,q4\n"]))
    by_label = {record.label: record for record in result.record}
    assert list(by_label) == ["neutral", "refutes", "supports", "one label alone", "several labels"]
    # For its own question d4 is neutral alone; elsewhere it supports.
    assert "q/q4#0" in by_label["neutral"].attempts
    assert by_label["neutral"].listed == 1
    alone, several = by_label["one label alone"], by_label["several labels"]
    assert 0 < alone.shown.value < 1
    assert alone.shown.value + several.shown.value == pytest.approx(1.0)
    assert not set(alone.attempts) & set(several.attempts)
    assert result.table.columns[0] == "label"
    with pytest.raises(UserError, match="expected a document's id and its label"):
        listed(stored_runs, agent, file, "document,label\nd1,\n")
    with pytest.raises(UserError, match="has 21 labels; expected at most 20"):
        listed(stored_runs, agent, file, "document,label\n" + "".join(f"d{place},l{place}\n" for place in range(21)))
