"""Imports whose columns or files are not what they seem: read with a line, or stopped with the map that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError

QUESTIONS = [
    {"id": f"q{number}", "question": f"Which of these {number}?", "options": dict(zip("ABCD", "wxyz", strict=True)),
     "answer": "ABCD"[number % 4]} for number in range(40)
]  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> str:
    return f"jsonl:{lines(tmp_path / 'questions.jsonl', QUESTIONS)}"


def lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def answers(path: Path, answer: Any, **more: Any) -> Path:
    return lines(path, [{"id": row["id"], "prediction": answer(row["answer"])} | more for row in QUESTIONS])


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_for_letters_are_named(bench: str, tmp_path: Path, first: int) -> None:
    path = answers(tmp_path / "numbers.jsonl", lambda letter: str("ABCD".index(letter) + first))
    imported = rr.import_runs(path, bench, home=tmp_path)
    (text,) = [finding.text for finding in imported.findings if finding.kind == "no letter"]
    assert "40 of 40 answers are numbers" in text
    assert f"by position from {first}, 40 would be right" in text


def test_small_letters_raise_no_alarm_and_the_result_has_frames(bench: str, tmp_path: Path) -> None:
    imported = rr.import_runs(answers(tmp_path / "small.jsonl", str.lower), bench, home=tmp_path)
    assert {finding.kind for finding in imported.findings} == {"usage"}
    assert imported.to_pandas().shape[0] > 0


@pytest.mark.parametrize(
    ("more", "suggestion"),
    [
        ({"total_tokens": 30}, "input_tokens=COLUMN .* output_tokens=COLUMN"),
        ({"input_tokens": "many", "output_tokens": 3}, "input_tokens=COLUMN"),
        ({"seconds": 1e9}, "milliseconds=seconds"),
        ({"cost": -1}, "cost= to leave it out"),
        ({"score": 71}, "score= to leave it out"),
    ],
)
def test_a_figure_that_no_row_has_stops_the_import(
    bench: str, tmp_path: Path, more: dict[str, Any], suggestion: str
) -> None:
    path = answers(tmp_path / "figures.jsonl", str, **more)
    with pytest.raises(UserError, match=suggestion):
        rr.import_runs(path, bench, home=tmp_path)
    left_out = dict.fromkeys({"total_tokens": ["tokens"]}.get(next(iter(more)), [*more]), "")
    assert rr.import_runs(path, bench, home=tmp_path, fields=left_out).runs


def test_answers_that_are_all_the_right_ones_stop_the_import(bench: str, tmp_path: Path) -> None:
    rows = [{"id": row["id"], "gold": row["answer"], "output": row["answer"], "text": "?"} for row in QUESTIONS]
    path = lines(tmp_path / "gold.jsonl", rows)
    with pytest.raises(UserError, match="answer=output if it is this"):
        rr.import_runs(path, bench, home=tmp_path)
    assert rr.import_runs(path, bench, home=tmp_path, fields={"answer": "output"}).runs


def test_epochs_from_one_are_read_as_from_zero(bench: str, tmp_path: Path) -> None:
    rows = [{"id": row["id"], "prediction": "A", "epoch": epoch} for epoch in (1, 2) for row in QUESTIONS]
    imported = rr.import_runs(lines(tmp_path / "epochs.jsonl", rows), bench, home=tmp_path)
    assert [(run.run.epochs, run.matching.doubled) for run in imported.runs] == [(2, 0)]
    assert any("counted from 1" in line for line in imported.guesses)


def sample(number: int, filter_name: str, answer: str) -> dict[str, Any]:
    row = QUESTIONS[number]
    doc = {"id": row["id"], "question": row["question"], "options": [*row["options"].values()]}
    return {"doc_id": number, "doc": doc, "target": row["answer"], "filtered_resps": [answer], "filter": filter_name}


def test_tasks_and_filters_of_lm_eval_are_runs_of_their_own(bench: str, tmp_path: Path) -> None:
    stamp = "2026-01-01T00-00-00.000000"
    folder = tmp_path / "model"
    rows = [sample(number, name, letter) for number in range(4) for name, letter in (("strict", "A"), ("loose", "B"))]
    first = lines(folder / f"samples_one_{stamp}.jsonl", rows)
    second = lines(folder / f"samples_two_{stamp}.jsonl", [sample(number, "strict", "C") for number in range(4)])
    imported = rr.import_runs([first, second], bench, home=tmp_path)
    agents = {run.run.identity["agent"]: run.matching.doubled for run in imported.runs}
    assert agents == {"model": 0, "model loose": 0, f"model {second.stem}": 0}


def test_the_output_of_a_batch_is_read(bench: str, tmp_path: Path) -> None:
    body = {
        "choices": [{"message": {"content": "The answer is B."}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    row = {"id": "batch_1", "custom_id": "q1", "response": {"status_code": 200, "body": body}, "error": None}
    path = lines(tmp_path / "batch.jsonl", [row])
    (run,) = rr.import_runs(path, bench, home=tmp_path, agent="batch").comparison.rows
    assert (run.usage.input, run.usage.output) == (10, 5)
    named = {"id": "custom_id", "answer": "response.body.choices.0.message.content"}
    again = rr.import_runs(path, bench, home=tmp_path, agent="mapped", fields=named)
    assert again.runs[0].matching.by_id == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("id,answer\nq1,Ménière\n".encode("cp1252"), "cp1252"),
        (b"id,answer\rq1,A\rq2,B\r", "old Macs"),
        (b"id,answer,answer\nq1,A,B\n", "two columns with the name 'answer'"),
    ],
)
def test_the_fault_of_a_file_is_named(bench: str, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "faulty.csv").write_bytes(content)
    for form in (None, "table"):
        with pytest.raises(UserError, match=reason):
            rr.import_runs(tmp_path / "faulty.csv", bench, home=tmp_path, agent="x", format=form)
