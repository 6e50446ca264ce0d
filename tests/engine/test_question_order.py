"""The order of questions: it changes no result, and a server's prefix cache finds more."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.question_order import SharedOrder, ordered
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed


def question(number: int, cluster: str = "", text: str = "", documents: tuple[str, ...] = ()) -> tuple[Question, Gold]:
    options = {"A": "one", "B": "two"}
    made = Question(id=f"t/{number}", benchmark="t", text=text or f"Q{number}?", options=options, cluster=cluster)
    return made, Gold(question_id=made.id, answer="A", documents=documents)


def ids(pairs: list[tuple[Question, Gold]]) -> list[int]:
    golds = {gold.question_id: gold for _, gold in pairs}
    found = ordered([made for made, _ in pairs], golds)
    return [int(one.id.partition("/")[2]) for one in found]


def test_what_shares_a_source_a_document_or_a_beginning_stands_together() -> None:
    case = "A 54-year-old man presents with chest pain. " * 6
    pairs = [
        question(0, cluster="report 1"),
        question(1, documents=("d1",)),
        question(2, text=case + "Which drug?"),
        question(3, cluster="report 1"),
        question(4),
        question(5, documents=("d2", "d1")),
        question(6, text=case + "Which test?"),
    ]
    assert ids(pairs) == [0, 3, 1, 5, 2, 6, 4]


def test_a_question_and_its_duplicate_are_in_one_block() -> None:
    """A budget that ends a run between blocks leaves no cluster half asked."""
    pairs = [question(number, cluster=f"case {number % 20}") for number in range(40)]
    order = SharedOrder(7).blocks([made for made, _ in pairs], {}, lambda: 2)
    clusters = [made.cluster for made in order]
    assert clusters[::2] == clusters[1::2]
    assert len(set(clusters)) == 20


def test_short_beginnings_and_empty_clusters_bring_nothing_together() -> None:
    assert ids([question(i, text="What is it?") for i in range(5)]) == list(range(5))


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.sets(st.sampled_from("xyz"))), max_size=30))
def test_it_is_a_permutation_with_whole_groups(parts: list[tuple[str, set[str]]]) -> None:
    pairs = [question(i, cluster, documents=tuple(sorted(docs))) for i, (cluster, docs) in enumerate(parts)]
    found = ids(pairs)
    assert sorted(found) == list(range(len(parts)))
    for cluster in "abc":
        places = [place for place, number in enumerate(found) if parts[number][0] == cluster]
        # Between two of a cluster stands only what a document ties to their group.
        between = range(places[0], places[-1] + 1) if places else ()
        assert all(parts[found[place]][0] or parts[found[place]][1] for place in between)
    assert [number for number in found if parts[number] == ("", set())] == [
        number for number in range(len(parts)) if parts[number] == ("", set())
    ]


def test_the_option_is_checked_before_anything_is_made(command: Cli, home: Path) -> None:
    wrong = command("run", "--order", "shred")
    assert (wrong.returncode, "'shared'" in wrong.stderr) == (2, True)
    both = command("run", "--order", "shared", "--until", "separated(direct, vanilla_rag) @ 95%")
    assert both.returncode == 2
    assert "--until" in both.stderr
    assert not (home / "store.sqlite").exists()
    done = command("run", "--agent", "direct", "--limit", "4", "--order", "shared", "--display", "none", "--json")
    assert done.returncode == 0, done.stderr


async def test_all_epochs_of_a_question_follow_each_other(tmp_path: Path) -> None:
    pairs = [question(i) for i in range(4)]
    asked, golds = [made for made, _ in pairs], {gold.question_id: gold for _, gold in pairs}
    seen: list[tuple[str, int]] = []
    with Store(tmp_path / "store") as store:
        made = planned(store, "direct", asked, golds, epochs=2)
        listen = lambda finished: seen.append((finished.attempt.question_id, finished.attempt.epoch))  # noqa: E731
        await replayed(store, [made], asked, golds, concurrency=1, stops=[SharedOrder()], listener=listen)
    drawn = sorted(range(4), key=lambda i: lot(0, f"t/{i}"))
    assert seen == [(f"t/{i}", epoch) for i in drawn for epoch in range(2)]


async def test_a_budget_ends_a_run_at_the_first_of_the_drawn_questions(tmp_path: Path) -> None:
    # Every third question is about one report: they stand together in a block, and yet are not asked before others.
    pairs = [question(i, documents=("report",) if i % 3 == 0 else ()) for i in range(120)]
    asked, golds = [made for made, _ in pairs], {gold.question_id: gold for _, gold in pairs}
    drawn = [one.id for one in sorted(asked, key=lambda one: lot(7, one.id))]
    done: list[str] = []
    with Store(tmp_path / "store") as store:
        made = planned(store, "direct", asked, golds)
        listen = lambda finished: done.append(finished.attempt.question_id)  # noqa: E731
        budget = BudgetStop(Budget(tokens=15 * 40))
        await replayed(store, [made], asked, golds, concurrency=2, stops=[budget, SharedOrder(7)], listener=listen)
    assert 40 <= len(done) <= 42  # what was in flight is finished
    assert sorted(done) == sorted(drawn[: len(done)])
    assert done != drawn[: len(done)]  # inside its blocks it has an order of its own
