"""Runs under a scorer whose figure is of the whole corpus: tables, epochs, open attempts, claims, studies' cells."""

import json
import random

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Question, Run, Usage
from ragrounds.evals.analyses.run_data import scored_run
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import figure
from ragrounds.evals.compare.question_values import answered_with
from ragrounds.evals.scorers.base import StoredScorer
from ragrounds.evals.scorers.triplets import TRIPLETS
from ragrounds.extensions.diagnostics.analyses.epochs import over_epochs
from ragrounds.extensions.studies.figures import cohort_of, mean_of, run_figure

SIZES = {"x/one": 60, "x/two": 40}
TEXTS = [
    Question(id=f"{name}/{place}", text="?", kind="extraction", benchmark=name)
    for name, size in SIZES.items()
    for place in range(size)
]
WANTED = {one.id: [["a", ("r", "s")[place % 3 == 0], str(place)] for place in range(number % 4)]
          for number, one in enumerate(TEXTS)}  # fmt: skip


def replies(seed, epochs):
    """Question → its answers, an epoch each: some of what is wanted, and sometimes more."""
    drawn = random.Random(seed)
    return {
        one.id: [
            [each for each in WANTED[one.id] if drawn.random() < 0.6 + seed / 10]
            + [["x", "r", "y"]] * (drawn.random() < 0.3)
            for _ in range(epochs)
        ]
        for one in TEXTS
    }  # fmt: skip


def add(store, name, made, status=lambda id, epoch: "completed"):
    golds = {one.id: Gold(question_id=one.id, answer=json.dumps(WANTED[one.id])) for one in TEXTS}
    epochs = len(next(iter(made.values())))
    run = Run(
        id=f"{name}-run", agent=name, benchmark="x", questions=content_version(TEXTS, golds), count=len(TEXTS),
        epochs=epochs, fingerprint=name, identity={"models": {"model": "test:m"}, "agent": name}, created=1.0,
    )  # fmt: skip
    store.add_run(run, TEXTS, golds)
    attempts = [
        Attempt(
            run=run.id, question_id=id, epoch=epoch, status=status(id, epoch), text=json.dumps(found),
            usage=Usage(100 + len(id), 10), seconds=0.1, model_calls=1,
        )
        for id, answers in made.items()
        for epoch, found in enumerate(answers)
        if status(id, epoch) != "not made"
    ]  # fmt: skip
    by_id = {one.id: one for one in TEXTS}
    scores = [TRIPLETS.score(one, by_id[one.question_id], golds[one.question_id]) for one in attempts]
    store.add_attempts(run, attempts, scores)
    return run


def micro_f1(made, epoch, dataset, kind="", skip=()):
    """Counted here, by no code of the package."""
    right = both = 0
    for one in TEXTS:
        if one.benchmark != dataset or one.id in skip:
            continue
        wanted = {tuple(each) for each in WANTED[one.id] if kind in ("", each[1])}
        found = {tuple(each) for each in made[one.id][epoch] if kind in ("", each[1])}
        right += len(wanted & found)
        both += len(wanted) + len(found)
    return 2 * right / both


def expected(made, kind=""):
    epochs = range(len(next(iter(made.values()))))
    return {name: sum(micro_f1(made, epoch, name, kind) for epoch in epochs) / len(epochs) for name in SIZES}


def test_two_runs_of_two_epochs_and_two_datasets(store):
    one, other = replies(0, 2), replies(2, 2)
    runs = [add(store, "one", one), add(store, "other", other)]
    found = compare(store, runs, group_by=["dataset"])
    (table,) = found.tables
    whole = []
    for line, made in zip(table.lines, (one, other), strict=True):
        by_dataset = expected(made)
        assert {name: figure.value for name, figure in line.datasets.items()} == pytest.approx(by_dataset)
        assert line.overall.value == pytest.approx(sum(by_dataset.values()) / 2)
        assert line.overall.low < line.overall.value < line.overall.high
        assert line.overall.error is None
        whole.append(line.overall.value)
    (pair,) = table.pairs
    assert pair.tests.difference == pytest.approx(whole[1] - whole[0])
    assert pair.tests.low < pair.tests.difference < pair.tests.high
    assert (pair.tests.p_mcnemar, pair.tests.mde) == (None, None)
    groups = {group.name: group for group in table.groups[0].groups}
    assert groups["x/two"].figures["other-run"].value == pytest.approx(expected(other)["x/two"])
    # The frontier's shares are of the same figures.
    points = {point.run: point for point in table.frontier.points}
    assert points["other-run"].score.value == whole[1]
    assert points["other-run"].on_frontier


def test_epochs_alone_and_claims_are_of_the_same_figures(store):
    made = replies(1, 3)
    run = add(store, "one", made)
    (spread,) = over_epochs([scored_run(store, run, "triplets")])
    alone = [sum(micro_f1(made, epoch, name) for name in SIZES) / 2 for epoch in range(3)]
    assert list(spread.values) == pytest.approx(alone)
    (line,) = compare(store, [run]).tables[0].lines
    (claim,) = check_claims(store, [run], ["2 * score(one) - 0.01 * tokens(one) > 0 @ 90%"])
    (condition,) = claim.conditions
    tokens = sum(
        sum(110 + len(one.id) for one in TEXTS if one.benchmark == name) / size for name, size in SIZES.items()
    )
    assert condition.value == pytest.approx(2 * line.overall.value - 0.01 * tokens / 2)
    assert condition.low < condition.value < condition.high
    plain = check_claims(store, [run], [f"score(one) > 0.1 @ {level}%" for level in (95, 90)])
    measured, narrower = (verdict.conditions[0] for verdict in plain)
    assert (measured.low, measured.high) == pytest.approx((line.overall.low, line.overall.high))
    assert measured.low < narrower.low < narrower.high < measured.high


def test_what_was_not_made_has_missed_all_and_is_shown_as_open(store):
    made = replies(1, 1)
    late = {one.id for one in TEXTS if one.id.endswith("7")}
    run = add(store, "one", made, lambda id, epoch: "not made" if id in late else "completed")
    nothing = {id: [[]] if id in late else answers for id, answers in made.items()}
    everything = {id: [WANTED[id]] if id in late else answers for id, answers in made.items()}
    (line,) = compare(store, [run]).tables[0].lines
    assert line.overall.value == pytest.approx(sum(expected(nothing).values()) / 2)
    assert line.overall.best == pytest.approx(sum(expected(everything).values()) / 2)
    assert line.overall.best > line.overall.value


def test_cells_of_a_study_have_intervals_of_averages_and_differences(store):
    runs = [add(store, name, replies(seed, 2)) for name, seed in (("one", 0), ("other", 2))]
    one, other = (run_figure(store, run) for run in runs)
    assert len(one.epochs) == 2
    assert sum(one.epochs) / 2 == pytest.approx(one.value)
    assert min(one.epochs) > 0.3  # the second epoch is no empty one
    (pair,) = compare(store, runs).tables[0].pairs
    made = other.sample.minus(one.sample)
    assert (made.value, made.low, made.high) == pytest.approx(
        (pair.tests.difference, pair.tests.low, pair.tests.high), abs=1e-9
    )
    average = mean_of({"a": one, "b": other})
    assert average.value == pytest.approx((one.value + other.value) / 2)
    assert average.low < average.value < average.high
    rows = cohort_of([one, other])
    assert rows.low < rows.value < rows.high
    assert rows.sample.mean().value == pytest.approx(rows.value)


def test_a_scorer_that_is_not_here_cannot_be_added_up():
    gone = StoredScorer(name="gone", summary="s", method="m", kinds=("extraction",), ratio=True)
    with pytest.raises(UserError, match="is not installed"):
        answered_with(gone, TEXTS[0], Gold(question_id=TEXTS[0].id, answer="[]"), "")
    with pytest.raises(ValueError, match="parts of each question"):
        figure(TEXTS, {one.id: 1.0 for one in TEXTS}, {}, 0, TRIPLETS)
