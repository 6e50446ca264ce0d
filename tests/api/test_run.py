"""The library runs, scores and compares without printing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragrounds.api.compare import compare, ledger
from ragrounds.api.run import Execution, RunListener, RunRequest, run
from ragrounds.api.runs import list_runs, remove_run, show_attempt
from ragrounds.api.score import score
from ragrounds.errors import UserError
from ragrounds.records import Run

REQUEST = RunRequest(agents=("direct", "vanilla_rag[top_k=2]"), limit=4)


class Heard(RunListener):
    """What was told."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def planned(self, run: Run, models: Sequence[str]) -> None:
        self.runs.append(run.id)


@pytest.mark.usefixtures("home")
def test_a_run_is_a_record_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    heard = Heard()
    result = run(REQUEST, listener=heard)
    assert [one.id for one in result.runs] == heard.runs
    assert [row.statuses for row in result.comparison.rows] == [{"completed": 4}, {"completed": 4}]
    assert (result.ended, result.failures, result.stopping) == ("", (), None)
    assert result.made > 0
    again = run(REQUEST, Execution(journal="replay"))
    assert (again.made, [one.id for one in again.runs]) == (0, heard.runs)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
def test_stored_runs_are_listed_compared_scored_and_removed(capfd: pytest.CaptureFixture[str]) -> None:
    result = run(REQUEST)
    first, second = (one.id for one in result.runs)
    _, states = list_runs()
    assert {state.run.id: state.statuses for state in states} == {first: {"completed": 4}, second: {"completed": 4}}
    assert compare([first, second], scorers=["strict"]).comparison.rows == result.comparison.rows
    assert score([first], scorers=["strict"]).counts[0][0].id == first
    assert ledger([first]).ledger.total.calls > 0
    question = result.benchmark.questions[0].id
    assert show_attempt(first, question).question.id == question
    assert remove_run(first).id == first
    assert [state.run.id for state in list_runs()[1]] == [second]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("execution", "said"),
    [
        (Execution(max_questions=3), "`max_questions` goes with `until`"),
        (Execution(order="shared", until="separated(direct, vanilla_rag) @ 95%"), "`order` cannot be set with `until`"),
        (Execution(order="shraed"), "Did you mean 'shared'"),
        (Execution(engine="rya"), "Did you mean 'ray'"),
        (Execution(workers=9, concurrency=2), "a worker has at least one attempt in flight"),
    ],
)
def test_what_cannot_be_carried_out_is_said(execution: Execution, said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(REQUEST, execution)
