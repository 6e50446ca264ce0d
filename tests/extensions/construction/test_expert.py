"""The experts' sample: blind, read back, and agreement as it is worked out by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.construction.expert_sheets import (
    ExpertReview,
    FinalLabel,
    agreement_note,
    expert_agreement,
    reviewed,
    sample_labels,
    sample_lines,
    sheet_files,
)

LABELS = [FinalLabel(query="q", document=f"d{n}", relevant=n < 4) for n in range(10)]
QUERIES = {"q": "=Why?"}
TEXTS = {f"d{n}": f"Text {n}" for n in range(10)}


def write(path: Path, labels: list[FinalLabel], decisions: dict[str, str]) -> list[dict[str, str]]:
    """Write the sheet with the expert's words beside the items; gives its rows."""
    path.write_bytes(b"".join(sample_lines(labels, QUERIES, TEXTS)))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")  # as spreadsheets of some countries save it
        writer.writeheader()
        writer.writerows({**row, "rating": decisions.get(row["id"], "")} for row in rows)
    return rows


def test_the_expert_does_not_see_the_label_and_agreement_is_as_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "expert.csv"
    rows = write(path, LABELS, {})
    assert {tuple(row) for row in rows} == {("id", "query", "passage", "rating", "comment", "digest")}
    assert {row["query"] for row in rows} == {"'=Why?"}
    with pytest.raises(UserError, match="write yes or no"):
        expert_agreement(path, LABELS, QUERIES, TEXTS)
    # The expert says yes to d0, d1, d2 and d4, no to the rest but d9, which stays open.
    write(path, LABELS, {label.item: "yes" if n in (0, 1, 2, 4) else "no" for n, label in enumerate(LABELS[:9])})
    found = expert_agreement(path, LABELS, QUERIES, TEXTS)
    assert found.judge.n == 9
    assert found.judge.accuracy.value == pytest.approx(7 / 9)
    # Labels yes 4, expert yes 4 of 9: chance (16 + 25)/81.
    assert found.judge.kappa == pytest.approx((7 / 9 - 41 / 81) / (1 - 41 / 81))
    assert found.judge.confusion == {"no": {"no": 4, "yes": 1}, "yes": {"no": 1, "yes": 3}}
    assert found.undecided == 1


def test_a_sheet_of_another_benchmark_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "expert.csv"
    write(path, LABELS[:2], {LABELS[0].item: "yes", LABELS[1].item: "no"})
    with pytest.raises(UserError, match="there is no item"):
        expert_agreement(path, LABELS[:1], QUERIES, TEXTS)


def test_a_decision_is_on_the_texts_and_not_on_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "expert.csv"
    write(path, LABELS, {label.item: "yes" for label in LABELS})
    found = expert_agreement(path, LABELS, QUERIES, TEXTS | {"d3": "Another text"})
    assert (found.judge.n, found.changed) == (9, (LABELS[3].item,))
    with pytest.raises(UserError, match="the texts of 10 of its rows are others now"):
        expert_agreement(path, LABELS, {"q": "Wherefore?"}, TEXTS)
    rows = list(csv.DictReader(path.open(encoding="utf-8-sig", newline=""), delimiter=";"))

    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "digest"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(UserError, match="it is unknown what was rated"):
        expert_agreement(path, LABELS, QUERIES, TEXTS)


def test_a_sample_is_drawn_by_its_seed() -> None:
    one = sample_labels(LABELS, 5, seed=1)
    assert one == sample_labels(reversed(LABELS), 5, seed=1)
    assert one != sample_labels(LABELS, 5, seed=2)
    assert set(sample_labels(LABELS, 3, seed=1)) < set(one)
    assert len(sample_labels(LABELS, 50, seed=1)) == 10


def test_a_sheet_with_somebodys_work_in_it_is_not_written_over(tmp_path: Path) -> None:
    lines = sample_lines(LABELS, {"q": "Why?"}, TEXTS)
    assert list(sheet_files(tmp_path, lines, b"Rate.")) == ["sheet.csv", "instructions.md"]
    (tmp_path / "sheet.csv").write_bytes(b"".join(lines))
    assert "sheet.csv" in sheet_files(tmp_path, lines, b"Rate.")
    (tmp_path / "sheet.csv").write_bytes(b"my work")
    assert sheet_files(tmp_path, lines, b"Rate.")["sheet-2.csv"] == lines


def test_a_sheet_is_written_once_and_read_back(tmp_path: Path) -> None:
    files, agreed = reviewed(ExpertReview(out=tmp_path, sample=10), LABELS, QUERIES, lambda ids: TEXTS, seed=0)
    assert (list(files), agreed) == (["sheet.csv", "instructions.md"], None)
    path = tmp_path / "filled.csv"
    write(path, LABELS, {label.item: "yes" for label in LABELS[:5]})
    files, agreed = reviewed(ExpertReview(out=tmp_path, sheet=path), LABELS, QUERIES, lambda ids: TEXTS, seed=0)
    assert files == {}
    assert agreed is not None
    assert agreement_note(agreed).startswith("Experts agree with 80.0% of 5 labels")
