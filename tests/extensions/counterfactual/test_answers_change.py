"""The verdict that answers change: tested against repetition, and corrected for every cell of the table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Question
from ragrounds.evals.compare.figures import Figure, PairedFigure
from ragrounds.extensions.counterfactual.effects import Effect, _adjusted, exchange_p

NONE = dict.fromkeys(map(str, range(60)), 0.0)


def asked(count: int, cluster: str = "") -> list[Question]:
    return [Question(id=str(place), benchmark="t", text="", cluster=cluster) for place in range(count)]


@pytest.mark.parametrize(("count", "p"), [(1, 1 / 3), (2, 1 / 9), (4, 1 / 81)])
def test_p_is_the_chance_that_the_changed_answers_differ_most(count: int, p: float) -> None:
    changed = {str(place): 1.0 for place in range(count)}
    assert exchange_p(asked(count), changed, [NONE, NONE], 0) == pytest.approx(p, rel=0.1)
    assert exchange_p(asked(count, cluster="one"), changed, [NONE, NONE], 0) == pytest.approx(1 / 3, rel=0.1)


def test_answers_that_change_as_often_by_asking_again_are_none() -> None:
    odd = {str(place): float(place % 2) for place in range(60)}
    even = {str(place): float(place % 2 == 0) for place in range(60)}
    assert exchange_p(asked(60), odd, [odd], 0) == 1.0
    assert exchange_p(asked(60), odd, [even], 0) > 0.3
    assert exchange_p(asked(60), NONE, [even], 0) > 0.9
    assert exchange_p(asked(60), dict.fromkeys(odd, 1.0), [even], 0) < 0.001


def test_a_dataset_counts_as_much_as_another() -> None:
    small, large = ([replace(question, id=f"{name}{question.id}", benchmark=name) for question in asked(count)]
                    for name, count in (("small", 2), ("large", 40)))  # fmt: skip
    changed = {question.id: float(question.benchmark == "small") for question in [*small, *large]}
    again = {question.id: float(question.id in ("large0", "large1")) for question in [*small, *large]}
    assert exchange_p([*small, *large], changed, [again], 0) == pytest.approx(1 / 4, rel=0.1)


def test_the_verdict_follows_the_adjusted_p_and_the_interval() -> None:
    share = Figure(value=0.2, n=60, missing=0)
    effect = Effect(
        run="r", agent="a", change="reverse", counterfactuals=("c",), questions=60, attempts=60, failed=0, touched=None,
        reached=None, before=share, after=share, difference=PairedFigure(difference=0.0, low=-0.1, high=0.1, n=60),
        lost=None, gained=None, changed=share, noise=share, next_query=None, bought=0, reused=0, paid=0.0, p=1.0,
        beyond=PairedFigure(difference=0.1, low=0.02, high=0.2, n=60),
    )  # fmt: skip
    assert replace(effect, p_changed=0.04).verdict == "answers change"
    assert replace(effect, p_changed=0.06).verdict == effect.verdict == "within noise"
    beyond = PairedFigure(difference=0.1, low=-0.02, high=0.2, n=60)
    assert replace(effect, p_changed=0.04, beyond=beyond).verdict == "within noise"
    assert _adjusted({("a",): 0.02, ("b",): None, ("c",): 0.03, ("d",): 0.5}) == {
        ("a",): pytest.approx(0.06), ("c",): pytest.approx(0.06), ("d",): 0.5,
    }  # fmt: skip
