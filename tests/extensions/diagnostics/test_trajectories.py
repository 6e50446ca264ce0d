"""Analysis ``trajectories``: two agents by hand, over two epochs: one without search, one that searches three times."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Event, Gold, Noted, Run, Usage
from ragrounds.evals.analyses.analysis import AnalysisOptions, AnalysisResult, analyse
from ragrounds.evals.store.store import Store
from ragrounds.ui.pictures.chart_text import draw
from tests.ui.trace.making import Journal, attempt, bare_run, model_call, question, rounds, score, search_call, step
from tests.ui.trace.making import passages as two_passages

MODELS = {"model": "openai:tiny"}
OPTIONS = AnalysisOptions(scorer="strict")


def added(store: Store, agent: str, count: int, epochs: int = 1, **identity: Any) -> Run:
    asked = [question(number) for number in range(count)]
    run = replace(bare_run(agent, asked, epochs), identity=identity)
    store.add_run(run, asked, {one.id: Gold(question_id=one.id, answer="A", documents=("doc1",)) for one in asked})
    return run


def by_run(result: AnalysisResult) -> dict[str, Any]:
    return {one.run: one for one in result.record}  # type: ignore[union-attr]


@pytest.fixture
def made(tmp_path: Any) -> AnalysisResult:
    """Two questions, two epochs. `plain` is right on the first, both times; `seeker` once on the first and both times
    on the second, and stops once at its own limit."""
    with Store(tmp_path) as store:
        journal = Journal(store)
        plain = added(store, "plain", 2, 2, retriever=None, models=MODELS)
        seeker = added(store, "seeker", 2, 2, retriever="bm25", models=MODELS)
        places = [(0, 0), (0, 1), (1, 0), (1, 1)]
        short = [step(0, "answer", model_call(journal, "answer", "Case?", f"{place}")) for place in places]
        store.add_attempts(
            plain,
            [attempt(plain, at, events, epoch=epoch) for (at, epoch), events in zip(places, short, strict=True)],
            [score(at, at == 0, epoch=epoch) for at, epoch in places],
        )
        long = [rounds(journal, 3) for _ in places]
        long[3].append(Noted(step=4, what="search_limit", text="all 3 searches were used"))
        store.add_attempts(
            seeker,
            [attempt(seeker, at, events, epoch=epoch) for (at, epoch), events in zip(places, long, strict=True)],
            [score(at, (at, epoch) != (0, 1), epoch=epoch) for at, epoch in places],
        )
        journal.close()
        return analyse("trajectories", store, [plain, seeker], OPTIONS)


def test_searches_documents_and_repeated_work(made: AnalysisResult) -> None:
    found = by_run(made)["seeker-run"]
    assert (found.searches, found.queries, found.unknown) == (3, 3, 0)
    # Every round asks another query and finds the same two documents.
    assert (found.documents, found.repeated) == (2, pytest.approx(2 / 3))
    assert found.gold.value == 1.0
    plain = by_run(made)["plain-run"]
    assert (plain.searches, plain.documents, plain.repeated, plain.gold) == (0, 0, None, None)


def test_tokens_by_role(made: AnalysisResult) -> None:
    assert by_run(made)["plain-run"].tokens == {"answering": 120}
    assert by_run(made)["seeker-run"].tokens == {"reading": 360, "answering": 120}


def test_answers_changed_by_what_was_found(made: AnalysisResult) -> None:
    plain, seeker = by_run(made)["plain-run"], by_run(made)["seeker-run"]
    assert (plain.reference, plain.changed) == ("", None)
    # Of four answers those to the second question became right, and one to the first became wrong.
    assert (seeker.reference, seeker.changed.value) == ("plain-run", 0.75)
    assert "by plain-run" in made.table.note


def test_steps_are_set_against_the_shortest_right_way_of_any_agent(made: AnalysisResult) -> None:
    plain, seeker = by_run(made)["plain-run"], by_run(made)["seeker-run"]
    assert plain.over_shortest == 1
    # Seven steps; one was enough for the first question, and nobody needed fewer for the second, twice.
    assert seeker.over_shortest == pytest.approx((7 + 1 + 1) / 3)


def test_all_of_k_attempts_right(made: AnalysisResult) -> None:
    assert by_run(made)["plain-run"].pass_k == (0.5, 0.5)
    assert by_run(made)["seeker-run"].pass_k == (0.75, 0.5)
    assert "pass^2 %" in made.table.columns


def test_how_attempts_ended(made: AnalysisResult) -> None:
    assert by_run(made)["seeker-run"].ended == {"answered": 3, "own limit": 1}
    assert made.table.rows[1][-1] == "3 answered, 1 own limit"


def test_the_table_is_no_wider_than_a_screen_and_the_picture_has_a_point_an_agent(made: AnalysisResult) -> None:
    assert len(made.table.columns) <= 12
    assert {len(row) for row in made.table.rows} == {len(made.table.columns)}
    assert [(mark.name, mark.x) for mark in made.picture.marks] == [("plain-run", 0), ("seeker-run", 3)]


def one_attempt(tmp_path: Any, events: list[Event], **changes: Any) -> Any:
    with Store(tmp_path) as store:
        run = added(store, "odd", 1, retriever="bm25", models=MODELS)
        store.add_attempts(run, [replace(attempt(run, 0, events), **changes)], [score(0, True)])
        return by_run(analyse("trajectories", store, [run], OPTIONS))["odd-run"]


def test_a_query_asked_again_is_repeated_work(tmp_path: Any) -> None:
    with Store(tmp_path) as store:
        journal = Journal(store)
        asked = [search_call(journal, "s", query, two_passages(at)) for at, query in enumerate(("Aspirin ", "aspirin"))]
        journal.close()
    found = one_attempt(tmp_path, step(0, "s", *asked))
    assert (found.searches, found.queries, found.repeated) == (2, 1, 0.5)


def test_what_was_not_recorded_is_not_known(tmp_path: Any) -> None:
    found = one_attempt(tmp_path, [])
    assert (found.unknown, found.searches, found.queries, found.documents, found.gold) == (1, None, None, None, None)
    assert (found.tokens, found.over_shortest) == (None, None)
    with Store(tmp_path) as store:
        result = analyse("trajectories", store, store.runs(), OPTIONS)
    assert "of 1 attempts it is not known whether they searched" in result.table.note
    assert "odd-run" in draw(result.picture, width=80)  # as a row: it has no place among the searches


def test_a_call_without_its_usage_makes_tokens_unknown(tmp_path: Any) -> None:
    with Store(tmp_path) as store:
        journal = Journal(store)
        call = model_call(journal, "answer", "Case?", "A")
        journal.close()
    assert one_attempt(tmp_path, step(0, "answer", replace(call, usage=None))).tokens is None


@pytest.mark.parametrize("status", ["capped", "failed"])
def test_a_cap_or_a_failure_is_no_limit_of_its_own(tmp_path: Any, status: str) -> None:
    events = [*step(0, "search"), Noted(step=0, what="search_limit", text="all were used")]
    assert one_attempt(tmp_path, events, status=status, usage=Usage()).ended == {status: 1}


def test_answers_are_set_against_no_other_model(tmp_path: Any) -> None:
    with Store(tmp_path) as store:
        journal = Journal(store)
        runs = [
            added(store, "plain", 1, retriever=None, models={"model": "openai:other"}),
            added(store, "seeker", 1, retriever="bm25", models=MODELS),
        ]
        for run, events in zip(runs, (step(0, "answer"), rounds(journal, 1)), strict=True):
            store.add_attempts(run, [attempt(run, 0, events)], [score(0, True)])
        journal.close()
        assert by_run(analyse("trajectories", store, runs, OPTIONS))["seeker-run"].changed is None
