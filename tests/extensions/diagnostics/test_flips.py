"""What a refinement turned."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Entered, Gold, Left, Question, Run
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.scorers import find_scorer
from ragrounds.extensions.diagnostics.analyses.flips import count_flips, first_answer, refinements
from tests.scorers.making import attempt, gold, question


def make_run(store, events, texts, kind="long"):
    options = {"A": "yes", "B": "no"} if kind == "choice" else {}
    questions = [Question(id=id, benchmark="q", text=f"{id}?", kind=kind, options=options) for id in texts]
    golds = {id: Gold(question_id=id, answer="A", documents=("d1",)) for id in texts}
    run = Run(
        id="r-1",
        agent="r",
        benchmark="q",
        questions="set",
        count=len(texts),
        epochs=1,
        fingerprint="r",
        identity={},
        created=1.0,
    )
    store.add_run(run, questions, golds)
    store.add_attempts(
        run,
        [
            Attempt(
                run=run.id, question_id=id, epoch=0, status="completed", text=text, events=tuple(events.get(id, ()))
            )
            for id, text in texts.items()
        ],
    )
    return run


def test_flips_with_the_interval_of_the_net_gain(store):
    turned = {"right": "A", "wrong": "B"}
    ways = [("wrong", "right")] * 12 + [("right", "wrong")] * 2 + [("right", "right")] * 10 + [(None, "right")]
    events = {
        f"q/{n + 10}": [
            Entered(step=0, node="think", at=0.0),
            Left(step=0, seconds=0.1, changes={"first": turned[one]}),
        ]
        for n, (one, _) in enumerate(ways)
        if one
    }
    texts = {f"q/{n + 10}": turned[other] for n, (_, other) in enumerate(ways)}
    run = make_run(store, events, texts, kind="choice")
    made = analyse("flips", store, [run], AnalysisOptions(scorer="strict"))
    (record,) = made.record
    flips = record.flips
    assert (flips.wrong_right, flips.right_wrong, flips.right_right, flips.wrong_wrong) == (12, 2, 10, 0)
    assert (flips.changed, flips.without) == (14, 1)
    assert record.net == pytest.approx(10 / 24)
    assert 0 < record.low < record.net < record.high
    assert (record.gained.value, record.lost.value) == (pytest.approx(0.5), pytest.approx(2 / 24))
    assert made.table.rows[0][1:7] == (10, 2, 12, 0, 14, 1)
    assert [bar.value for bar in made.picture.marks] == [record.gained.value, record.lost.value]
    with pytest.raises(UserError, match="equivalent"):  # a judge would be needed
        analyse("flips", store, [run], AnalysisOptions(scorer="equivalent"))


def refined(first, last):
    left = Left(step=0, seconds=0.1, changes={} if first is None else {"first": first})
    return attempt(last, events=(left,))


def test_flips():
    attempts = [
        refined("A", "A"),
        refined("A", "B"),
        refined("B", "A"),
        refined("B", "C"),
        refined(None, "A"),
    ]
    made = count_flips("strict", refinements(attempts, {"x/1": question()}, {"x/1": gold("A")}, find_scorer("strict")))
    assert (made.right_right, made.right_wrong, made.wrong_right, made.wrong_wrong) == (1, 1, 1, 1)
    assert (made.changed, made.without, made.net) == (3, 1, 0)
    assert first_answer(attempts[1]) == "A"
