import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks import Card, select
from ragrounds.evals.benchmarks.benchmark import Item, assemble


def made(sizes):
    items = [
        Item(
            Question(id=f"{name}/{number}", benchmark=f"x/{name}", text=f"{name} {number}?", kind="long"),
            Gold(question_id=f"{name}/{number}", answer="yes"),
        )
        for name, size in sizes.items()
        for number in range(size)
    ]
    return assemble("x", Card(name="x", title="x", task="long", source="", license=""), items)


BENCHMARK = made({"a": 30, "b": 7, "c": 100})


@given(st.integers(1, 150), st.integers(1, 150), st.integers())
def test_a_smaller_limit_is_a_subset_in_the_same_order(one, other, seed):
    small, large = sorted((one, other))
    few = [question.id for question in select(BENCHMARK, limit=small, seed=seed).questions]
    many = [question.id for question in select(BENCHMARK, limit=large, seed=seed).questions]
    assert [name for name in many if name in set(few)] == few
    assert len(few) == min(small, len(BENCHMARK))


def test_per_dataset_is_a_ceiling():
    drawn = select(BENCHMARK, per_dataset=10)
    assert drawn.counts == {"x/a": 10, "x/b": 7, "x/c": 10}
    assert set(drawn.golds) == {question.id for question in drawn.questions}
    assert drawn.selection is not None
    assert drawn.selection.of == len(BENCHMARK)


def test_the_draw_depends_on_the_seed_and_is_recorded():
    one, other = select(BENCHMARK, limit=20, seed=1), select(BENCHMARK, limit=20, seed=2)
    assert one.version != other.version
    assert one.selection is not None
    assert one.selection.seed == 1
    assert select(BENCHMARK, limit=20, seed=1).version == one.version


def test_the_draw_does_not_move_between_machines():
    drawn = [question.id for question in select(BENCHMARK, limit=3, seed=7).questions]
    assert drawn == ["a/24", "c/16", "c/92"]


def test_no_limit_is_the_same_benchmark():
    assert select(BENCHMARK) is BENCHMARK


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"per_dataset": -1}])
def test_a_limit_below_one_is_an_error(arguments):
    with pytest.raises(UserError, match="give 1 or more"):
        select(BENCHMARK, **arguments)
