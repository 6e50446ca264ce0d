"""Inside answers: searches by their order, and what a refinement turned."""

import asyncio

import pytest

from ragrounds.contracts import Entry, SearchRequest, SearchResult
from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Call, Called, Entered, Gold, Left, Passage, Question, Run

TEXTS = {
    "d1": "Scurvy follows from a lack of vitamin C, which collagen needs.",
    "d2": "Rickets softens growing bones when vitamin D is missing.",
    "d3": "The liver stores glycogen and makes bile.",
}
GOOD, BAD = "The lack of vitamin C leads to scurvy because collagen needs it.", "Growing bones: rickets softens them."
# Question → what its searches found, and its answer. The gold document is d1; the last question names none.
ATTEMPTS = {
    "q/0": ([("gums", ["d3", "d1"])], GOOD),
    "q/1": ([("bones", ["d2"]), ("gums", ["d2", "d1"]), ("GUMS", ["d1"])], GOOD),
    "q/2": ([("bones", ["d2", "d3"])], BAD),
    "q/3": ([], GOOD),
    "q/4": ([("liver", ["d3"])], BAD),
}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def make_run(store, events, texts, kind="long"):
    options = {"A": "yes", "B": "no"} if kind == "choice" else {}
    questions = [Question(id=id, benchmark="q", text=f"{id}?", kind=kind, options=options) for id in texts]
    golds = {id: Gold(question_id=id, answer="A", documents=("d1",) if id != "q/4" else ()) for id in texts}
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


def searching(store):
    events = {id: [] for id in ATTEMPTS}

    async def record():
        journal = StoreJournal(store)
        number = 0
        for id, (asked, _) in ATTEMPTS.items():
            for step, (query, found) in enumerate(asked):
                number += 1
                entry = Entry(
                    key=f"{number:02x}" * 32,
                    kind="search",
                    actor="bm25",
                    request=SearchRequest(corpus="c", query=query, k=2),
                )
                result = SearchResult(
                    tuple(
                        Passage(id=f"{name}#0", document=name, title="", text=TEXTS[name], corpus="c") for name in found
                    )
                )

                async def make(result=result):
                    return result

                await journal.once(entry, make, SearchResult)
                call = Call(key=entry.key, kind="search", role="querying", node="s", actor="bm25", at=0.0, seconds=0.1)
                kept = TEXTS[found[-1]]
                events[id] += [
                    Entered(step=step, node="s", at=0.0),
                    Called(step=step, call=call),
                    Left(step=step, seconds=0.1, changes={"information": kept}),
                ]
        journal.close()

    asyncio.run(record())
    return make_run(store, events, {id: text for id, (_, text) in ATTEMPTS.items()})


@pytest.mark.slow
def test_searches_by_their_order(store):
    run = searching(store)
    made = analyse("searches", store, [run], AnalysisOptions())
    (record,) = made.record
    assert (record.attempts, record.searching, record.without_gold) == (5, 4, 1)
    assert [(use.which, use.searches) for use in record.uses] == [("1", 4), ("2", 1), ("3", 1), ("all", 6)]
    first, second, third, every = record.uses
    assert first.found.value == pytest.approx(1 / 3)  # q/0, q/1, q/2; q/4 names no gold document
    assert (first.found.n, first.new.value, first.repeated.value) == (3, 1.0, 0.0)
    assert (second.found.value, second.new_gold.value, second.new.value) == (1.0, 1.0, 0.5)
    assert (third.found.value, third.new_gold.value, third.repeated.value) == (1.0, 0.0, 1.0)
    assert (every.found.value, every.found.n) == (pytest.approx(3 / 5), 5)
    assert every.found.low < every.found.value < every.found.high
    bars = list(dict.fromkeys(bar.name for bar in made.picture.marks))
    assert bars == ["found gold", "new gold", "new passages", "asked before"]


def test_a_run_that_never_searched_has_no_shares(store):
    run = make_run(store, {}, {"q/0": GOOD})
    ((use,),) = (record.uses for record in analyse("searches", store, [run], AnalysisOptions()).record)
    assert (use.which, use.searches, use.found) == ("all", 0, None)


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
