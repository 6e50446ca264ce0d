"""Averages, cohorts, changes and differences of cells, against the statistics of their questions computed here."""

from __future__ import annotations

import pytest

from ragrounds.evals.stats import paired_difference, stratified_mean
from ragrounds.extensions.studies.figures import CellFigure, Sample, cohort_of, mean_of, queries_figure
from ragrounds.extensions.studies.paper_table import CellResult, study_table
from ragrounds.extensions.studies.study import read_study

ONE, TWO = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]


def figure(values: list[float], dataset: str = "a", measure: str = "strict", prefix: str = "q") -> CellFigure:
    sample = Sample(
        ids=tuple(f"{prefix}{number}" for number in range(len(values))),
        values=tuple(values),
        strata=(dataset,) * len(values),
        clusters=("",) * len(values),
    )
    made = sample.mean()
    return CellFigure(value=made.value, low=made.low, high=made.high, n=len(values), measure=measure, sample=sample)


def test_the_mean_of_columns_weighs_each_the_same() -> None:
    made = mean_of({"one": figure(ONE), "two": figure(TWO)})
    wanted = stratified_mean([*ONE, *TWO], ["x"] * 6 + ["y"] * 4)
    assert made.value == pytest.approx((4 / 6 + 1 / 4) / 2)
    assert (made.low, made.high) == pytest.approx((wanted.low, wanted.high))


def test_a_column_of_two_datasets_is_one_column() -> None:
    both = Sample(
        ids=tuple("abcdef"), values=(1.0, 1.0, 0.0, 0.0, 0.0, 1.0), strata=("x",) * 2 + ("y",) * 4, clusters=("",) * 6
    )
    column = CellFigure(value=both.mean().value, measure="strict", sample=both)
    assert column.value == pytest.approx((1 + 1 / 4) / 2)
    made = mean_of({"both": column, "two": figure(TWO)})
    assert made.value == pytest.approx((column.value + 1 / 4) / 2)
    assert made.sample is not None
    assert made.low <= made.value <= made.high


def test_a_cohort_is_the_mean_of_its_rows_question_by_question() -> None:
    other = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    made = cohort_of([figure(ONE), figure(other)])
    values = [(one + two) / 2 for one, two in zip(ONE, other, strict=True)]
    wanted = stratified_mean(values, attempts=2)
    assert made.value == pytest.approx(wanted.value)
    assert (made.low, made.high) == pytest.approx((wanted.low, wanted.high))
    apart = cohort_of([figure(ONE), figure(TWO)])
    assert apart.value == pytest.approx((4 / 6 + 1 / 4) / 2)
    assert apart.low is None  # other questions: no interval of a mean over them


def test_queries_are_a_mean_without_interval_where_they_are_few() -> None:
    made = queries_figure({"a": 0.5, "b": 1.0, "c": 0.25}, "nDCG@10", "set")
    assert (made.value, made.low) == (pytest.approx(0.5833333), None)


STUDY = """
title = "t"
baseline = "first"
[settings]
benchmark = "sample"
agent = "direct"
[[rows]]
name = "first"
[[rows]]
name = "second"
published = [50, 60, "", "", ""]
[[columns]]
name = "a"
[[columns]]
name = "b"
limit = 4
[[columns]]
name = "mean"
mean = ["a", "b"]
[[columns]]
name = "change"
change = ["a", "b"]
[[columns]]
name = "less"
difference = ["a", "b"]
"""


def test_what_is_computed_of_cells() -> None:
    study = read_study(STUDY, "t")
    results = {
        ("first", "a"): CellResult(state="done", figure=figure(ONE)),
        ("first", "b"): CellResult(state="done", figure=figure(TWO)),
        ("second", "a"): CellResult(state="done", figure=figure([1.0] * 6)),
        ("second", "b"): CellResult(state="part", figure=figure([1.0, 1.0, 1.0, 0.0]), why="2 attempts left"),
    }
    table = study_table(study, results)
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    assert cells["first", "change"].value == pytest.approx(100 * (1 / 4 - 4 / 6) / (4 / 6))
    assert cells["first", "less"].value == pytest.approx(100 * (1 / 4 - 4 / 6))
    second = cells["second", "a"]
    wanted = paired_difference(ONE, [1.0] * 6)
    assert second.difference == pytest.approx(100 * wanted.value)
    assert (second.difference_low, second.difference_high) == pytest.approx((100 * wanted.low, 100 * wanted.high))
    assert second.deviation == pytest.approx(50)
    # A mean of what is not all there is no mean.
    assert (cells["second", "mean"].state, cells["second", "mean"].value) == ("part", None)
    assert cells["second", "mean"].why == "needs b"


def test_another_measure_has_no_difference() -> None:
    study = read_study(STUDY, "t")
    results = {
        ("first", "a"): CellResult(state="done", figure=figure(ONE)),
        ("second", "a"): CellResult(state="done", figure=figure(ONE, measure="robust")),
    }
    table = study_table(study, results)
    assert next(cell for cell in table.cells if (cell.row, cell.column) == ("second", "a")).difference is None
