import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.contracts import Entry, SearchRequest, SearchResult
from ragrounds.errors import UserError
from ragrounds.evals.scorers.trajectory import Expected, Trajectory, follows, queries_of, read_expected
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.records import Call, Called, Entered
from tests.scorers.making import attempt, gold, question


def call(number, kind="search", actor="bm25[k1=0.9]"):
    return Called(
        step=1, call=Call(key=f"k{number}", kind=kind, role="querying", node="search", actor=actor, at=0, seconds=0)
    )


EVENTS = (
    Entered(step=0, node="plan", at=0),
    Entered(step=1, node="search", at=0),
    call(1),
    call(2),
    call(3, "tool", "calculator"),
    call(4, "model", "openai:x"),
    Entered(step=2, node="answer", at=0),
)
QUERIES = {"k1": "Vitamin  C", "k2": "scurvy"}


def score(expected, query=lambda call: QUERIES.get(call.key), **more):
    scorer = Trajectory(expected={"*": expected}, query=query)
    return scorer.score(attempt("B", events=EVENTS, **more), question(), gold())


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (Expected(nodes=("plan", "answer")), 1.0),
        (Expected(nodes=("answer", "plan")), 0.0),
        (Expected(nodes=("plan", "search", "answer"), mode="exact"), 1.0),
        (Expected(tools=("bm25", "bm25", "calculator"), mode="exact"), 1.0),
        (Expected(tools=("calculator", "bm25"), mode="any_order"), 1.0),
        (Expected(tools=("calculator", "bm25"), mode="unordered"), 0.0),
        (Expected(tools=("bm25", "bm25", "calculator", "web"), mode="subset"), 1.0),
        (Expected(tools=("bm25", "calculator"), mode="subset"), 0.0),
        (Expected(queries=("vitamin c", "Scurvy"), mode="exact"), 1.0),
        (Expected(nodes=("plan",), queries=("rickets",)), 0.0),
        (Expected(tools=(), mode="exact"), 0.0),
        (Expected(), 1.0),
    ],
)
def test_parts_and_modes(expected, value):
    made = score(expected)
    assert made.value == value
    assert bool(made.reason) == (value == 0.0)
    assert made.prediction == "plan → search → answer"


def test_queries_that_are_not_known_do_not_match():
    assert score(Expected(queries=("x",)), lambda call: None).reason == "queries: some are not in the journal"


def test_nothing_expected_is_missing():
    made = Trajectory(expected={"other": Expected()}).score(attempt("B", events=EVENTS), question(), gold())
    assert made.value is None
    assert score(Expected(), status="not_run").value is None


STEPS = st.lists(st.sampled_from("abc"), max_size=4)


@given(STEPS, STEPS)
def test_the_modes_imply_each_other(actual, expected):
    exact, ordered = follows(actual, expected, "exact"), follows(actual, expected, "in_order")
    some, same = follows(actual, expected, "any_order"), follows(actual, expected, "unordered")
    assert ordered or not exact
    assert some or not ordered
    assert same == (some and follows(actual, expected, "subset"))
    assert some == any(follows(actual, order, "in_order") for order in permutations(expected))


def test_a_file_of_expectations(tmp_path):
    file = tmp_path / "expected.jsonl"
    file.write_text('{"question": "x/1", "nodes": ["plan"], "mode": "exact"}\n{"tools": ["bm25"]}\n')
    found = read_expected(file)
    assert found["x/1"].mode == "exact"
    assert found["*"].tools == ("bm25",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"nodes": ["a"]}\n{"nodes": ["b"]}', "line 2: the question '\\*' stands twice"),
        ('{"node": ["a"]}', "line 1: .*`node`"),
        ('{"mode": "loose"}', "line 1: Invalid enum value 'loose' at mode"),
    ],
)
def test_a_broken_file_of_expectations(tmp_path, text, said):
    file = tmp_path / "expected.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        read_expected(file)


async def test_queries_are_looked_up_in_the_journal(tmp_path):
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        request = SearchRequest(corpus="c", query="vitamin C", k=1)

        async def make():
            return SearchResult(())

        await journal.once(Entry(key="a" * 64, kind="search", actor="bm25", request=request), make, SearchResult)
        journal.close()
        look_up = queries_of(store)
        known, lost = (
            Call(key=key * 64, kind="search", role="querying", node="s", actor="bm25", at=0, seconds=0) for key in "ab"
        )
        assert look_up(known) == "vitamin C"
        assert look_up(lost) is None


def test_the_command(command, home, tmp_path):
    done = command("run", "--display", "none", "--agent", "vanilla_rag", "--limit", "3")
    assert done.returncode == 0, done.stderr
    (tmp_path / "way.jsonl").write_text('{"question": "*", "nodes": ["retrieve", "answer"], "mode": "exact"}\n')
    done = command("score", "vanilla_rag", "--scorer", "strict", "--trajectory", "way.jsonl")
    assert done.returncode == 0, done.stderr
    assert "trajectory, percent  attempts that took the expected way" in done.stdout
    assert "100.00" in done.stdout.partition("trajectory, percent")[2].splitlines()[2]
    (tmp_path / "way.jsonl").write_text('{"question": "*", "queries": ["nothing of the kind"]}\n')
    assert command("score", "vanilla_rag", "--trajectory", "way.jsonl").returncode == 0
    shown = json.loads(command("compare", "vanilla_rag", "--scorer", "trajectory", "--json").stdout)
    assert shown["tables"][0]["lines"][0]["overall"]["value"] == 0.0
    assert command("score", "vanilla_rag", "--trajectory", "none.jsonl").returncode == 2
