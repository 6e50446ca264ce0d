"""The library runs, scores and compares without printing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.api.runs import remove_run, show_attempt
from ragrounds.base.records import Run
from tests.servers.process import openai_server

AGENTS = ["direct", "vanilla_rag[top_k=2]"]


class PlannedRuns(rr.RunListener):
    """Listener that keeps the ids of the planned runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def planned(self, run: Run, models: Sequence[str]) -> None:
        self.runs.append(run.id)


@pytest.mark.usefixtures("home")
def test_a_run_is_a_record_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    heard = PlannedRuns()
    result = rr.run(agents=AGENTS, limit=4, listener=heard)
    assert [one.id for one in result.runs] == heard.runs
    assert [row.statuses for row in result.comparison.rows] == [{"completed": 4}, {"completed": 4}]
    assert (result.ended, result.failures, result.stopping) == ("", (), None)
    assert result.made > 0
    again = rr.run("sample", AGENTS, limit=4, journal="replay")
    assert (again.made, [one.id for one in again.runs]) == (0, heard.runs)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_retriever_for_all_agents_is_that_of_their_text() -> None:
    """It is no other run than the agent's whose text names the retriever, and what names its own keeps it."""
    agents = [*AGENTS, "vanilla_rag[retriever=bm25[b=0.9],top_k=1]"]
    given = rr.run(agents=agents, retriever="bm25[k1=1.2]", limit=2)
    written = rr.run(agents="vanilla_rag[top_k=2,retriever=bm25[k1=1.2]]", limit=2)
    assert [run.agent for run in given.runs] == ["direct", written.runs[0].agent, agents[2]]
    assert (given.ids[1], written.made) == (written.ids[0], 0)
    oracle = rr.run(agents=["oracle", "vanilla_rag"], retriever="bm25[k1=1.2]", limit=2)
    assert oracle.runs[0].agent == "oracle"  # its file names what shows the gold documents
    default = rr.run(agents=["direct", "vanilla_rag"], retriever="bm25", limit=2)
    assert default.runs[1].agent == "vanilla_rag"


@pytest.mark.usefixtures("home")
def test_stored_runs_are_listed_compared_scored_and_removed(capfd: pytest.CaptureFixture[str]) -> None:
    result = rr.run(agents=AGENTS, limit=4)
    first, second = result.ids
    assert {one.id: one.statuses for one in rr.runs()} == {first: {"completed": 4}, second: {"completed": 4}}
    assert rr.compare(result, scorers="strict").comparison.rows == result.comparison.rows
    assert rr.score(first, scorers=["strict"]).counts[0][0].id == first
    assert rr.ledger(rr.load(first)).ledger.total.model_calls > 0
    question = result.benchmark.questions[0].id
    assert show_attempt(first, question).question.id == question
    assert rr.load("direct").attempt(question).run.id == first
    assert remove_run(first).id == first
    assert rr.runs().ids == (second,)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_questions": 3}, "`max_questions` needs `until`; `limit`"),
        ({"order": "shared", "until": "separated(direct, vanilla_rag) @ 95%"}, "`order` cannot be set with `until`"),
        ({"order": "shraed"}, "`order` 'shraed' is unknown. Did you mean 'shared'"),
        ({"engine": "rya"}, "Did you mean 'ray'"),
        ({"journal": "replya"}, "`journal` 'replya' is unknown. Did you mean 'replay'"),
        ({"workers": 9, "concurrency": 2}, "a worker has at least one attempt in flight"),
        ({"agents": "direct", "retriever": "bm25"}, "The retriever bm25 changes nothing: direct does not search"),
        ({"retriever": "bm52"}, "Did you mean 'bm25'"),
        ({"limit": 0}, "`limit` 0 is too small; expected 1 or more"),
        ({"max_cost": -1.0}, "`max_cost` -1 is too small; expected 0 or more"),
        ({"agents": "direkt"}, "Did you mean 'direct'"),
        ({"benchmark": "smaple"}, "sample"),
        ({"model": "opnai:x"}, "openai"),
    ],
)
def test_what_cannot_be_carried_out_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(rr.UserError, match=said) as caught:
        rr.run(**{"agents": AGENTS, "limit": 4, **given})
    assert "--" not in str(caught.value)
    assert not rr.runs()


def test_nobody_is_asked_and_who_did_not_confirm_is_told_how(home: Path) -> None:
    home.mkdir()
    (home / "prices.toml").write_text('["openai:plain"]\ninput = 100000\noutput = 100000\n')
    with openai_server() as server:
        given: dict[str, Any] = {"agents": "direct", "model": "openai:plain", "base_url": server.url, "limit": 40}
        with pytest.raises(
            rr.UserError, match=r"Give `confirmed=True` to continue, or limit it with `max_cost`; finished"
        ):
            rr.run(**given)
        assert server.stats()["answered"] == 8
        result = rr.run(**given, confirmed=True)
        assert result.made == 32
        assert server.stats()["answered_twice"] == []
    assert result.to_pandas("attempts")["cost_paid"].sum() == pytest.approx(result.comparison.rows[0].cost_paid)


def test_settings_and_folders_are_those_that_are_given(home: Path, tmp_path: Path) -> None:
    other, third = tmp_path / "other", tmp_path / "third"
    rr.run(agents="direct", limit=2, home=other)
    assert (len(rr.runs()), len(rr.runs(home=str(other)))) == (0, 1)
    settings = rr.Settings(home=third, concurrency=2)
    rr.run(agents="direct", limit=2, settings=settings)
    assert (len(rr.runs(settings=settings)), (third / "store.sqlite").exists()) == (1, True)
    assert rr.compare("direct", home=other).to_pandas("attempts")["status"].tolist() == ["completed"] * 2
    with pytest.raises(rr.UserError, match=r"Give a folder as home='other'"):
        rr.runs(settings="other")  # type: ignore[arg-type]
    with pytest.raises(rr.UserError, match="not a listener"):
        rr.run(listener=print)  # type: ignore[arg-type]
    with pytest.raises(rr.UserError, match="`limit` '2' is no number"):
        rr.run(limit="2")  # type: ignore[arg-type]
    with pytest.raises(rr.UserError, match="0 runs were given, and only one can be loaded"):
        rr.load(rr.runs())
