import math

import ir_measures
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, SearchRequest, SearchResult
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Called, Gold, Passage, Question, Run, Score
from ragrounds.evals.analyses import run_data
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse, analyses
from ragrounds.evals.analyses.curves import against_parameter, against_size, size_of
from ragrounds.evals.analyses.epochs import over_epochs
from ragrounds.evals.analyses.failures import failures_by
from ragrounds.evals.analyses.position import by_position
from ragrounds.evals.analyses.quality import against_ndcg, ndcg
from ragrounds.evals.analyses.run_data import first_found, scored_run, searches
from ragrounds.evals.analyses.sources import SOURCES, Sources, sizes_of, sources
from ragrounds.evals.analyses.success import by_success
from ragrounds.evals.compare.question_values import QuestionValues
from ragrounds.evals.stats import group_difference
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages

COUNT = 20
OPTIONS = {"A": "yes", "B": "no"}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def passage(document, corpus="pubmed@1"):
    return Passage(id=f"{document}#0", document=document, title="", text="…", corpus=corpus)


def add(store, agent, right, *, epochs=1, calls=None, created=1.0, **identity):
    """A run whose question i is right where right(i, epoch); its first search is under the key calls(i)."""
    kinds = ["treatment", "test", "diagnosis"]
    questions = [
        Question(
            id=f"x/{i}",
            benchmark=f"b/{i % 2}",
            text=f"{i}?",
            options=OPTIONS,
            group=f"g{i % 4}",
            metadata={"significance_type": kinds[i % 3]},
        )
        for i in range(COUNT)
    ]
    golds = {
        f"x/{i}": Gold(question_id=f"x/{i}", answer="A", documents=(f"d{i}",) if i < 16 else ()) for i in range(COUNT)
    }
    run = Run(
        id=f"{agent}-{created}",
        agent=agent,
        benchmark="b",
        questions="set",
        count=COUNT,
        epochs=epochs,
        fingerprint=f"{agent} {created}",
        identity={"models": {"model": "openai:m"}, **identity},
        created=created,
    )
    store.add_run(run, questions, golds)
    attempts, scores = [], []
    for i in range(COUNT):
        for epoch in range(epochs):
            events = ()
            if calls:
                key = calls(i)
                call = Call(key=key, kind="search", role="querying", node="s", actor="bm25", at=0, seconds=0)
                events = (Called(step=0, call=call),)
            attempts.append(
                Attempt(run=run.id, question_id=f"x/{i}", epoch=epoch, status="completed", text="A", events=events)
            )
            scores.append(
                Score(
                    question_id=f"x/{i}",
                    epoch=epoch,
                    scorer="strict",
                    value=float(right(i, epoch)),
                    answer_status="answered",
                )
            )
    store.add_attempts(run, attempts, scores)
    return scored_run(store, run, "strict")


def test_a_run_without_the_scorer_says_what_it_has(store):
    run = add(store, "direct", lambda i, e: True).run
    with pytest.raises(UserError, match=r"'strikt'. Did you mean 'strict'\? It has strict"):
        scored_run(store, run, "strikt")


def test_accuracy_against_k(store):
    runs = [
        add(
            store,
            f"vanilla_rag[top_k={k}]",
            lambda i, e, k=k: i < k,
            created=float(k),
            parameters={"top_k": k},
            corpus="c",
        )
        for k in (8, 2, 16)
    ]
    runs.append(add(store, "direct", lambda i, e: False, parameters={}))
    made = against_parameter(runs)
    (curve,) = made.curves
    assert [point.x for point in curve.points] == [2, 8, 16]
    assert [point.figure.value for point in curve.points] == [k / COUNT for k in (2, 8, 16)]
    assert made.without == ("direct-1.0",)
    assert "top_k" not in curve.name
    with pytest.raises(UserError, match="None of these runs has a rounds"):
        against_parameter(runs, "rounds")


def test_accuracy_against_size(store):
    runs = [
        add(store, "direct", lambda i, e: True, created=float(i), models={"model": f"openai:{name}"})
        for i, name in enumerate(("llama-3-70b", "llama-3-8b", "gpt-4o"))
    ]
    made = against_size(runs, {"openai:gpt-4o": 200.0})
    assert [point.x for point in made.curves[0].points] == [8, 70, 200]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("openai:Qwen2.5-7B-Instruct", 7),
        ("ollama:llama3.1:8b", 8),
        ("x:Mixtral-8x7B", 56),
        ("x:phi-3.8b[temperature=0]", 3.8),
        ("openai:gpt-4o", None),
        ("x:bert-base", None),
    ],
)
def test_sizes_by_name(name, size):
    assert size_of(name) == size


def test_searches_are_read_from_the_journal(store):
    journal = StoreJournal(store)

    async def record(i):
        key = f"{i:064x}"
        request = SearchRequest(corpus="c", query=f"q{i}", k=2)

        async def make():
            return SearchResult((passage("other"), passage(f"d{i}")))

        await journal.once(Entry(key=key, kind="search", actor="bm25", request=request), make, SearchResult)

    import asyncio

    async def everything():
        for i in range(COUNT):
            await record(i)

    asyncio.run(everything())
    run = add(store, "rag", lambda i, e: i % 2 == 0, calls=lambda i: f"{i:064x}")
    found = first_found(searches(store, run.run), run.questions)
    journal.close()
    assert len(found) == COUNT
    assert found["x/3"].query == "q3"
    made = by_position(run, found)
    (only,) = made.bins
    assert (only.ranks, only.questions, made.without_gold) == ("2", 16, 4)


def placed(ranks):
    """For question i a search with its gold document at ranks[i]; 0: not found."""
    found = {}
    for i, rank in enumerate(ranks):
        documents = [f"n{i}-{place}" for place in range(1, 40)]
        if rank:
            documents[rank - 1] = f"d{i}"
        found[f"x/{i}"] = FoundPassages("q", tuple(passage(document) for document in documents))
    return found


def test_accuracy_by_position(store):
    run = add(store, "rag", lambda i, e: i < 8)
    ranks = [1, 1, 2, 2, 3, 4, 8, 9, 17, 33, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    made = by_position(run, placed(ranks))
    assert [(found.ranks, found.questions) for found in made.bins] == [
        ("1", 2),
        ("2", 2),
        ("3–4", 2),
        ("5–8", 1),
        ("9–16", 1),
        ("17–32", 1),
        ("33 and more", 1),
        ("not found", 6),
    ]
    assert made.bins[0].figure.value == 1.0
    assert made.bins[-1].figure.value == 0.0
    assert made.without_gold == 4


def test_success_and_right_answers(store):
    run = add(store, "rag", lambda i, e: i < 8)
    made = by_success(run, placed([1] * 6 + [5] * 4 + [0] * 6), k=3)
    assert (made.found_right, made.found_wrong, made.missed_right, made.missed_wrong) == (6, 0, 2, 8)
    assert made.difference == pytest.approx(0.8)
    assert made.low < 0.8 < made.high


def test_failures_by_what_the_case_is_published_for(store):
    """Of 20 questions 0–7 are right; 0–5 are found first, 6–9 fifth, 10–15 not at all, 16–19 name no document."""
    run = add(store, "rag", lambda i, e: i < 8)
    kinds = ["treatment"] * 4 + ["test"] * 4 + ["treatment"] * 6 + ["diagnosis"] * 3 + [""] * 3
    typed = [
        msgspec.structs.replace(question, metadata={"significance_type": kind} if kind else {}, group=f"s{len(kind)}")
        for question, kind in zip(run.questions, kinds, strict=True)
    ]
    run = msgspec.structs.replace(run, questions=tuple(typed))
    found = placed([1] * 6 + [5] * 4 + [0] * 6)
    made = failures_by(run, found, "significance_type", k=5)
    assert [(one.group, one.questions, one.right, one.wrong, one.wrong_found, one.wrong_missed) for one in made] == [
        ("treatment", 10, 4, 6, 2, 4), ("test", 4, 4, 0, 0, 0), ("diagnosis", 3, 0, 3, 0, 2), ("(none)", 3, 0, 3, 0, 0),
    ]  # fmt: skip
    assert [one.share for one in made] == [1.0, 0.0, 0.0, 0.0]
    assert [one.accuracy.value for one in made] == [0.4, 1.0, 0.0, 0.0]
    alone = failures_by(run, {}, "subject", k=5)
    assert [(one.group, one.wrong, one.wrong_found, one.share) for one in alone] == [
        ("s9", 9, None, 0.75), ("s4", 0, None, 0.0), ("s0", 3, None, 0.25),
    ]  # fmt: skip
    untyped = tuple(msgspec.structs.replace(question, metadata={}) for question in run.questions)
    with pytest.raises(UserError, match="Questions cannot be grouped by 'significance_type'"):
        failures_by(msgspec.structs.replace(run, questions=untyped), {}, "significance_type", k=5)


def test_success_has_the_interval_of_two_groups(store):
    run = add(store, "rag", lambda i, e: i < 8)
    made = by_success(run, placed([1] * 6 + [5] * 4 + [0] * 6), k=3)
    expected = group_difference([1.0] * 2 + [0.0] * 8, [1.0] * 6)
    assert (made.difference, made.low, made.high) == (expected.value, expected.low, expected.high)
    none = by_success(run, placed([0] * 16), k=3)
    assert (none.difference, none.low, none.high) == (None, None, None)


def test_ndcg_by_hand():
    gold = Gold(question_id="x", answer="", documents=("d0", "d1"))
    ranking = [passage("n"), passage("d0"), passage("d0"), passage("d1")]
    best = 1 + 1 / math.log2(3)
    assert ndcg(ranking, gold, 10) == pytest.approx((1 / math.log2(3) + 1 / math.log2(4)) / best)
    assert ndcg(ranking, gold, 1) == 0.0
    assert ndcg([], gold, 10) == 0.0


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.sets(st.sampled_from("abcdxy"), min_size=1))
def test_ndcg_equals_trec_eval(documents, wanted):
    ranking = list(dict.fromkeys(documents))
    judged = [ir_measures.Qrel("q", document, 1) for document in wanted]
    run = [ir_measures.ScoredDoc("q", document, float(-rank)) for rank, document in enumerate(ranking)]
    expected = ir_measures.calc_aggregate([ir_measures.nDCG @ 5], judged, run)[ir_measures.nDCG @ 5] if run else 0.0
    gold = Gold(question_id="q", answer="", documents=tuple(wanted))
    assert ndcg([passage(document) for document in documents], gold, 5) == pytest.approx(expected)


def test_accuracy_against_ndcg(store):
    runs = [
        (add(store, f"rag{n}", lambda i, e, n=n: i < n * 5, created=float(n)), placed([4 - n] * COUNT))
        for n in (1, 2, 3)
    ]
    made = against_ndcg(runs)
    assert [point.ndcg for point in made.runs] == pytest.approx([0.5, 1 / math.log2(3), 1.0])
    assert made.correlation > 0.9
    assert against_ndcg(runs[:2]).correlation is None


def test_sources(store):
    run = add(store, "rag", lambda i, e: True)
    found = {
        f"x/{i}": FoundPassages("q", (passage("a"), passage("b", "textbooks@2"), passage("c"))) for i in range(COUNT)
    }
    made = sources(run, found, k=2, sizes={"pubmed": 9, "textbooks": 1})
    assert made.shares["b/0"] == {"pubmed": 0.5, "textbooks": 0.5}
    assert made.corpus == {"pubmed": 0.9, "textbooks": 0.1}


def test_sizes_of_what_a_run_searched(store):
    run = add(store, "rag", lambda i, e: True, corpus="pubmed@1+textbooks@2").run
    assert sizes_of(run, {"pubmed@1": 9, "textbooks@2": 1, "pubmed@0": 5}) == {"pubmed": 9, "textbooks": 1}
    # One unknown size leaves no share of any.
    assert sizes_of(run, {"pubmed@1": 9, "textbooks@1": 1}) == {}
    other = add(store, "rag", lambda i, e: True, created=2.0, corpus="mine@1+pubmed@1").run
    assert sizes_of(other, {"pubmed@1": 9}) == {}


def test_a_corpus_that_runs_share_is_drawn_once():
    shares = {"mirage/mmlu": {"pubmed": 1.0}}
    made = tuple(
        Sources(run=f"r{number}", k=2, shares=shares, corpus={"pubmed": 0.9, "wiki": 0.1}) for number in (1, 2)
    )
    picture = SOURCES.picture(made, AnalysisOptions(k=2))
    groups = dict.fromkeys(mark.group for mark in picture.marks)
    assert list(groups) == [
        "the corpus itself",
        "r1, mirage/mmlu",
        "r2, mirage/mmlu",
    ]
    # A source that nothing was found in stands in the table with 0.
    assert SOURCES.table(made, AnalysisOptions(k=2)).rows[1][:5] == ("r1", "mirage/mmlu", "wiki", 0.0, 0.1)


def test_mean_and_spread_over_epochs(store):
    run = add(store, "direct", lambda i, e: i < 10 + 2 * e, epochs=3)
    again = add(store, "rag", lambda i, e: True, created=2.0)
    first, second = over_epochs([run, again])
    assert first.values == pytest.approx((0.5, 0.6, 0.7))
    assert (first.mean, first.sd) == (pytest.approx(0.6), pytest.approx(0.1))
    assert second.sd is None


def test_every_analysis_by_name_gives_a_table(store, monkeypatch):
    models = {"model": "x:y-7b"}
    first = add(store, "rag[top_k=2]", lambda i, e: i < 5, parameters={"top_k": 2}, models=models)
    second = add(store, "rag[top_k=8]", lambda i, e: i < 9, created=2.0, parameters={"top_k": 8}, models=models)
    monkeypatch.setattr(run_data, "first_found", lambda found, questions: placed([1] * COUNT))
    of_their_own = {
        "calibration",
        "evidence",
        "listed",
        "rubric",
    }  # confidence, counterfactuals, a list, a judge: their own tests have them
    assert of_their_own < set(analyses())
    for name in analyses().keys() - of_their_own:
        made = analyse(name, store, [first.run, second.run], AnalysisOptions())
        assert made.table.rows, name
        assert {len(row) for row in made.table.rows} == {len(made.table.columns)}
        assert msgspec.json.encode(made)
    with pytest.raises(UserError, match="Did you mean 'position'"):
        analyse("positon", store, [first.run], AnalysisOptions())
    with pytest.raises(UserError, match="needs a run"):
        analyse("epochs", store, [], AnalysisOptions())


@pytest.mark.parametrize("name", ["failures", "specialties", "flips"])
def test_what_counts_right_answers_refuses_scores_that_do_not_say_which_are_right(store, name):
    with pytest.raises(UserError, match=f"^The analysis {name} counts right answers, and rouge-l does not say which"):
        analyse(name, store, [add(store, "rag", lambda i, e: i < 8).run], AnalysisOptions(scorer="rouge-l"))


def test_success_of_a_scorer_of_shares_is_the_mean_of_them(store):
    run = add(store, "rag", lambda i, e: i < 4)
    shares = {id: 1.0 if number < 2 else 0.5 for number, id in enumerate(run.values)}
    made = by_success(
        replace(run, scorer="facts", values=QuestionValues(shares, {}, {})), placed([1] * 6 + [0] * 10), k=3
    )
    assert (made.found_right, made.found_wrong, made.missed_right, made.missed_wrong) == (2, 4, 0, 10)
    assert (made.accuracy_found, made.accuracy_missed) == (pytest.approx(4 / 6), 0.5)
    assert made.difference == pytest.approx(4 / 6 - 0.5)
    with pytest.raises(UserError, match="or are to a share, and rouge-l says neither"):
        analyse("success", store, [run.run], AnalysisOptions(scorer="rouge-l"))
