"""Which answers rest on listed documents: planted retractions, labels, evidence that conflicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.errors import UserError
from tests.counterfactuals.test_counterfactual import N, benchmark, made

__all__ = ["benchmark"]


def test_planted_retractions_are_traced_to_every_answer_that_rests_on_them(benchmark: str) -> None:
    file = Path(benchmark) / "retracted.csv"
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        home = where["home"]
        file.write_text("id\nd1\nd2\nd777\n")
        (one,) = rr.analyse("listed", run.ids, documents=str(file), home=home).result.record
        assert (one.listed, one.label) == (4, "")  # `id` stands above no digits, and is taken for an id
        assert one.attempts == {"q/q1#0": ("d1",), "q/q2#0": ("d2",)}
        assert (one.found.value, one.shown.value) == (2 / N, 2 / N)
        assert one.right_with.value == 1.0


def test_labels_say_what_evidence_is_one_sided_and_where_it_conflicts(benchmark: str) -> None:
    file = Path(benchmark) / "stance.csv"
    with made(benchmark, ["vanilla_rag[top_k=2]"]) as (_, where, run):
        home = where["home"]
        rows = [f"d{place},{'supports' if place % 2 else 'refutes'},\n" for place in range(N)]
        file.write_text("".join(["document,label,question\n", *rows, "d3,neutral,q3\n"]))
        found = rr.analyse("listed", run.ids, documents=str(file), home=home)
        by_label = {one.label: one for one in found.result.record}
        assert list(by_label) == ["neutral", "refutes", "supports", "one label alone", "several labels"]
        # For its own question d3 is neutral alone; elsewhere it supports.
        assert "q/q3#0" in by_label["neutral"].attempts
        assert by_label["neutral"].listed == 1
        alone, several = by_label["one label alone"], by_label["several labels"]
        assert alone.shown.value + several.shown.value == pytest.approx(1.0)
        assert not set(alone.attempts) & set(several.attempts)
        assert found.result.table.columns[0] == "label"
        file.write_text("document,label\nd1,\n")
        with pytest.raises(UserError, match="expected a document's id and its label"):
            rr.analyse("listed", run.ids, documents=str(file), home=home)
        file.write_text("document,label\n" + "".join(f"d{place},l{place}\n" for place in range(21)))
        with pytest.raises(UserError, match="has 21 labels; expected at most 20"):
            rr.analyse("listed", run.ids, documents=str(file), home=home)
