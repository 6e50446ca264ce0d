import msgspec
import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, SearchRequest, SearchResult
from ragrounds.base.errors import UserError
from ragrounds.evals.analyses import run_data
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse, analyses
from ragrounds.evals.analyses.run_data import first_found, scored_run, searches
from ragrounds.evals.compare.question_values import QuestionValues
from ragrounds.evals.stats import group_difference
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.extensions.diagnostics.analyses.curves import against_parameter, against_size, size_of
from ragrounds.extensions.diagnostics.analyses.epochs import over_epochs
from ragrounds.extensions.diagnostics.analyses.failures import failures_by
from ragrounds.extensions.diagnostics.analyses.success import by_success
from tests.analyses.stored_runs import COUNT, add, passage, placed


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


async def test_searches_are_read_from_the_journal(store):
    journal = StoreJournal(store)
    for i in range(COUNT):

        async def make(i=i):
            return SearchResult((passage("other"), passage(f"d{i}")))

        request = SearchRequest(corpus="c", query=f"q{i}", k=2)
        await journal.once(Entry(key=f"{i:064x}", kind="search", actor="bm25", request=request), make, SearchResult)
    run = add(store, "rag", lambda i, e: i % 2 == 0, calls=lambda i: f"{i:064x}")
    found = first_found(searches(store, run.run), run.questions)
    journal.close()
    assert len(found) == COUNT
    assert found["x/3"].query == "q3"
    assert run_data.gold_ranks(run, found) == {f"x/{i}": 2 for i in range(16)}


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


def test_success_and_right_answers_with_the_interval_of_two_groups(store):
    run = add(store, "rag", lambda i, e: i < 8)
    made = by_success(run, placed([1] * 6 + [5] * 4 + [0] * 6), k=3)
    assert (made.found_right, made.found_wrong, made.missed_right, made.missed_wrong) == (6, 0, 2, 8)
    expected = group_difference([1.0] * 2 + [0.0] * 8, [1.0] * 6)
    assert (made.difference, made.low, made.high) == (expected.value, expected.low, expected.high)
    none = by_success(run, placed([0] * 16), k=3)
    assert (none.difference, none.low, none.high) == (None, None, None)


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
    for name in analyses().keys() - of_their_own:
        made = analyse(name, store, [first.run, second.run], AnalysisOptions())
        assert made.table.rows, name
        assert {len(row) for row in made.table.rows} == {len(made.table.columns)}
        assert msgspec.json.encode(made)
    with pytest.raises(UserError, match="Did you mean 'epochs'"):
        analyse("epoch", store, [first.run], AnalysisOptions())
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
