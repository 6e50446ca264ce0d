"""Analysis ``hops``: shares by hand, and the same from a store by the command's own way."""

from __future__ import annotations

import pytest

from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.analyses.gold_by_hop import gold_by_hop, gold_by_hop_picture
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import GoldHop
from tests.ui.trace.making import quiz_store


def test_shares_add_up_from_search_to_search() -> None:
    hops = {
        ("a", 0): GoldHop(2, 1),
        ("b", 0): GoldHop(3, 3),
        ("c", 0): GoldHop(3, None),
        ("d", 0): GoldHop(0, None),
        ("e", 0): GoldHop(1, 1),
    }
    made = gold_by_hop("run", {}, hops)
    assert [figure.value for figure in made.shares] == pytest.approx([0.4, 0.4, 0.6])
    assert (made.attempts, made.without_search) == (5, 1)
    assert all(figure.low is not None and figure.low < figure.value < (figure.high or 0) for figure in made.shares)
    assert [mark.name for mark in gold_by_hop_picture([made]).marks] == ["by search 1", "by search 2", "by search 3"]


def test_what_came_after_the_last_bar_is_in_it() -> None:
    hops = {("a", 0): GoldHop(40, 33), ("b", 0): GoldHop(40, None)}
    made = gold_by_hop("run", {}, hops)
    assert [figure.value for figure in made.shares] == [0.0] * 11 + [0.5]
    assert gold_by_hop_picture([made]).marks[-1].name == "by search 12 or later"


def test_epochs_of_a_question_and_its_duplicates_are_one_cluster() -> None:
    apart = {(f"q{number}", 0): GoldHop(1, 1 if number % 2 else None) for number in range(20)}
    alone = gold_by_hop("run", {}, apart).shares[0]
    together = gold_by_hop("run", {f"q{number}": f"c{number // 4}" for number in range(20)}, apart).shares[0]
    assert alone.value == together.value == 0.5
    assert (together.high or 0) - (together.low or 0) != pytest.approx((alone.high or 0) - (alone.low or 0))


def test_from_a_store(tmp_path) -> None:
    quiz_store(tmp_path).close()
    with Store(tmp_path) as store:
        result = analyse("hops", store, store.runs(), AnalysisOptions())
    assert result.table.columns[:3] == ("run", "attempts", "no search")
    assert [row[:3] for row in result.table.rows] == [("plain-run", 5, 5), ("seeker-run", 3, 0)]
