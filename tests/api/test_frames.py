"""Frames of results: columns, types also of nothing, nulls for what is not known, and the words of docs."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

import ragrounds as rr
from ragrounds.api import frames
from ragrounds.api.frame_rows import run_attempts
from ragrounds.api.results import pandas_frame
from ragrounds.base.records import Attempt, Call, Called, Gold, Question, Run, Score
from ragrounds.evals.store.store import Store
from tests.cli_grading.test_judge_command import stage
from tests.servers.grader_server import grader_server

PANDAS = {
    "text": "string",
    "whole": "Int64",
    "real": "float64",
    "truth": "boolean",
    "time": "datetime64[us, UTC]",
}
BY_NAME = {frame.name: frame for frame in frames.FRAMES}


def checked(result: rr.Result, name: str) -> pd.DataFrame:
    """A frame of a result, which has the columns that are promised."""
    made, frame = result.to_pandas(name), BY_NAME[name]
    assert tuple(made.columns) == frame.names
    assert [str(kind) for kind in made.dtypes] == [PANDAS[column.type] for column in frame.columns]
    return made


def stored(home: Path, attempts: list[Attempt], count: int, epochs: int = 1) -> Run:
    """A run in the store of that folder."""
    questions = [Question(id=f"q{n}", benchmark="b", text=f"number {n}?", kind="long") for n in range(count)]
    golds = {one.id: Gold(question_id=one.id, answer="a", documents=("d",)) for one in questions}
    run = Run(
        id="r", agent="a", benchmark="b", questions="set", count=count, epochs=epochs, fingerprint="f", identity={},
        created=1.5,
    )  # fmt: skip
    with Store(home) as store:
        store.add_run(run, questions, golds)
        scores = [
            Score(question_id=one.question_id, epoch=one.epoch, scorer="nobody", value=None, answer_status="empty")
            for one in attempts
        ]
        store.add_attempts(run, attempts, scores)
    return run


def test_what_is_not_known_is_null_and_what_is_not_made_is_not_run(home: Path) -> None:
    call = Call(key="", kind="model", role="answering", node="n", actor="m", at=0.0, seconds=0.5, error="gone")
    free = Call(key="ab", kind="search", role="searching", node="n", actor="s", at=2.0, seconds=0.5, cached=True)
    unknown = Attempt(
        run="r", question_id="q1", epoch=0, status="failed", text="", reason="no reply", seconds=1.0, at=3.25,
        model_calls=2,
        events=(Called(step=0, call=call), Called(step=0, call=free)),
    )  # fmt: skip
    stored(home, [unknown], 3)
    run = rr.load("r")
    attempts = checked(run, "attempts")
    assert attempts["status"].tolist() == ["not_run", "failed", "not_run"]
    assert attempts["input_tokens"].isna().all()
    assert attempts["cost_paid"].isna().all()
    assert attempts["model_calls"].tolist() == [pd.NA, 2, pd.NA]
    assert attempts["at"][1] == pd.Timestamp(3.25, unit="s", tz="UTC")
    calls = checked(run, "calls")
    assert calls["cost_paid"].isna().tolist() == [True, False]  # nothing is known of a call without a reply
    assert calls["cost_paid"][1] == 0
    assert calls["cost_uncached"].isna().all()
    assert checked(run, "scores")["value"].isna().all()
    row = checked(rr.runs(), "runs").iloc[0]
    assert (row["failed"], row["not_run"]) == (1, 2)
    assert pd.isna(row["cost_paid"])
    assert pd.isna(row["input_tokens"])


@pytest.mark.usefixtures("home")
def test_frames_of_nothing_have_their_types() -> None:
    for name in rr.runs().frames:
        assert len(checked(rr.runs(), name)) == 0
    for frame in frames.FRAMES:
        assert [str(kind) for kind in pandas_frame(frame, iter([])).dtypes] == [
            PANDAS[one.type] for one in frame.columns
        ]


def test_a_frame_is_read_in_parts_in_the_order_of_the_questions(home: Path) -> None:
    attempts = [
        Attempt(run="r", question_id=f"q{n}", epoch=epoch, status="completed", text=f"{n}")
        for n in range(1000)
        for epoch in range(2)
    ]
    run = stored(home, attempts, 1000, epochs=2)
    with Store(home) as store:
        sizes = [len(part) for part in run_attempts(store, run)]
    assert sum(sizes) == 2000
    assert max(sizes) <= 800
    frame = rr.load("r").to_pandas("attempts")
    assert frame["text"].tolist() == [f"{n}" for n in range(1000) for _ in range(2)]


def test_what_judges_said_is_a_frame(home: Path, tmp_path: Path) -> None:
    answers = ["methylene blue", "wait", None, "METHYLENE BLUE", "no", "rest"]
    stage(home, "direct", answers)
    with grader_server("--down", str(tmp_path / "down")) as server:
        judged = rr.judge("direct", "equivalence", judges="openai:grader", base_url=server.url)
        mild = rr.judge("direct", "equivalence", judges="openai:grader-mild", base_url=server.url)
    assert judged.frames[0] == "judgements"
    said = checked(mild, "judgements")
    mine = said[said["judge"].str.startswith("openai:grader[")].set_index("question_id")["verdict"]
    assert mine["og/0"] == mine["og/3"] == "equivalent"
    assert (mine == "equivalent").sum() == 2
    assert len(said) == 2 * len(mine)
    assert said["item"].equals(said["question_id"])
    assert "equivalent" in str(mild)


@pytest.mark.usefixtures("home")
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rr.runs()
    with pytest.raises(rr.UserError, match=r"has no frame 'atempts'\. Did you mean 'attempts'"):
        found.to_pandas("atempts")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rr.UserError, match=r"pip install 'ragrounds\[pandas\]'"):
        found.to_pandas()


def test_every_column_says_what_it_holds() -> None:
    """The site's page of frames is made of these."""
    written = frames.columns_table()
    assert all(f"| `{column.name}` | {column.type} |" in written for frame in frames.FRAMES for column in frame.columns)
    assert [column for frame in frames.FRAMES for column in frame.columns if not column.words] == []
