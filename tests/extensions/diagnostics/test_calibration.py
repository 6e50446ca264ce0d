"""Confidence against right answers: what it is read from, its figures beside libraries', the bound of the risk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Gold,
    Left,
    Message,
    Question,
    Reply,
    Run,
    Score,
    TokenLogprob,
)
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.analyses.run_data import scored_run
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.extensions.diagnostics.analyses.calibration import (
    BINS,
    THRESHOLDS,
    answer_probability,
    calibrated,
    confidences,
    errors,
    risk_bounds,
    stated,
)
from tests.rows import each_row

OPTIONS = {"A": "yes", "B": "no"}


def add(store, count, attempt, *, epochs=1, name="direct"):
    """A run; `attempt(i, epoch)` gives the text, the value, the letter that was read and the events."""
    questions = [Question(id=f"x/{i}", benchmark="b", text=f"{i}?", options=OPTIONS) for i in range(count)]
    golds = {one.id: Gold(question_id=one.id, answer="A") for one in questions}
    run = Run(
        id=f"{name}-1", agent=name, benchmark="b", questions=f"{count}", count=count, epochs=epochs,
        fingerprint=name, identity={}, created=1.0,
    )  # fmt: skip
    store.add_run(run, questions, golds)
    attempts, scores = [], []
    for i in range(count):
        for epoch in range(epochs):
            text, value, letter, *events = attempt(i, epoch)
            key = {"question_id": f"x/{i}", "epoch": epoch}
            attempts.append(Attempt(run=run.id, status="completed", text=text, events=tuple(events), **key))
            status = "answered" if letter else "abstained"
            scores.append(Score(scorer="strict", value=value, answer_status=status, prediction=letter, **key))
    store.add_attempts(run, attempts, scores)
    return scored_run(store, run, "strict")


@each_row(
    ("text", "said"),
    [
        ("The answer is B. Confidence: 85 %", 0.85),
        ('{"answer_choice": "B", "confidence": 0.7}', 0.7),
        ('{"confidence": "90%"}', 0.9),
        ("**Confidence:** 8/10", 0.8),
        ("Confidence level: 70 out of 100", 0.7),
        ("Confidence: 20 %. On reflection: Confidence: 60 %", 0.6),
        ("答案是 B。置信度：75％", 0.75),
        ("Confidence: 0,85", 0.85),
        ("Confidence: 1000 %", None),
        ('{"confidence": 85,"why": 3}', 0.85),
        ("Confidence: 1", 1.0),
        ("Confidence: 0", 0.0),
        ("Confidence: 1 %", 0.01),
        ("the 95 % confidence interval is 1.2 to 3.4", None),
        ("a confidence level of 95%", None),
        ("Confidence: high", None),
        ("Confidence: 850", None),
        ("Confidence: 12/10", None),
        ("Confidence: 3/0", None),
        ("", None),
    ],
)
def test_stated_confidence(text, said):
    assert stated(text) == (None if said is None else pytest.approx(said))


def test_the_probability_of_the_options_token():
    tokens = [
        TokenLogprob(token, math.log(p)) for token, p in (("A", 0.2), (" is wrong:", 0.9), (" **B", 0.6), (".", 1))
    ]
    assert answer_probability(tokens, "B") == pytest.approx(0.6)
    assert answer_probability(tokens, "C") is None
    assert answer_probability(tokens, "a text") == pytest.approx((0.2 * 0.9 * 0.6) ** 0.25)


async def test_where_confidences_are_read_from(store):
    """Epochs, samples, token probabilities and texts; by default the first that most answers have."""
    epochs = add(store, 4, lambda i, e: ("", float(i > 0), "A" if i or e else "B"), epochs=4, name="epochs")
    source, sure = confidences(store, epochs)
    assert source == "agreement"
    assert {key: sure[key] for key in [("x/0", 0), ("x/0", 1), ("x/1", 0)]} == {
        ("x/0", 0): 0.25, ("x/0", 1): 0.75, ("x/1", 0): 1.0,
    }  # fmt: skip

    def drawn(*reads):
        return Left(step=0, seconds=0.0, changes={"drawn": [{"text": "", "choice": "", "read": one} for one in reads]})

    samples = add(store, 2, lambda i, e: ("", 1.0, "A", drawn("A"), drawn("B"), drawn("A", "")), name="samples")
    assert confidences(store, samples) == ("agreement", {("x/0", 0): 0.5, ("x/1", 0): 0.5})
    tokens = (TokenLogprob("A", math.log(0.7)),)
    journal = StoreJournal(store)

    async def make():
        return Reply(text="A", logprobs=tokens)

    request = Request(messages=(Message("user", "?"),), logprobs=0)
    await journal.once(Entry(key="a" * 64, kind="model", actor="m", request=request), make, Reply)
    journal.close()
    call = Called(step=0, call=Call(key="a" * 64, kind="model", role="answering", node="n", actor="m", at=0, seconds=0))
    likely = add(store, 2, lambda i, e: ("Confidence: 90 %", 1.0, "A", call), name="likely")
    assert confidences(store, likely) == (
        "probability",
        {("x/0", 0): pytest.approx(0.7), ("x/1", 0): pytest.approx(0.7)},
    )
    assert confidences(store, likely, "stated")[1] == {("x/0", 0): 0.9, ("x/1", 0): 0.9}
    few = add(store, 4, lambda i, e: ("Confidence: 90 %" if i == 0 else "", 1.0, "A"), name="few")
    assert confidences(store, few) == ("", {})
    with pytest.raises(UserError, match=r"'stat' is no confidence. Did you mean 'stated'"):
        confidences(store, few, "stat")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_figures_equal_those_of_libraries(seed, store):
    """scikit-learn's Brier score and reliability curve, MAPIE's ECE (it counts the edges of bins, not the bins);
    AURC as the mean over orders of equal answers."""
    from sklearn.calibration import calibration_curve  # here, not in each process that collects this file
    from sklearn.metrics import brier_score_loss

    mapie = pytest.importorskip("mapie.metrics.calibration", reason="MAPIE is not installed")
    draw = np.random.default_rng(seed)
    count = 300
    sure = draw.random(count) if seed else draw.integers(0, 5, count) / 4
    right = (draw.random(count) < sure**1.5).astype(float)
    run = add(store, count, lambda i, e: (f"Confidence: {sure[i]:.17f}", right[i], "A"), name=f"r{seed}")
    source, stated_shares = confidences(store, run, "stated")
    made = calibrated(run, source, stated_shares)
    read = np.array([stated_shares[f"x/{i}", 0] for i in range(count)])
    assert made.brier.value == pytest.approx(brier_score_loss(right, read), abs=1e-9)
    if seed:  # MAPIE has a bin of its own for 0
        expected = mapie.expected_calibration_error(right.astype(int), read, BINS + 1, "uniform")
        assert made.ece.value == pytest.approx(expected, abs=1e-9)
    shares, means = calibration_curve(right, read, n_bins=BINS)
    assert [point.right.value for point in made.bins] == pytest.approx(shares.tolist(), abs=1e-9)
    assert [point.confidence for point in made.bins] == pytest.approx(means.tolist(), abs=1e-9)
    orders = []
    for _ in range(1 if seed else 2_000):
        order = np.lexsort((draw.random(count), -read))
        orders.append(np.mean(np.cumsum(1 - right[order]) / np.arange(1, count + 1)))
    assert made.aurc.value == pytest.approx(np.mean(orders), abs=1e-9 if seed else 2e-3)
    assert made.ece.low is None
    assert made.aurc.low < made.aurc.value < made.aurc.high


def test_few_or_equal_answers_have_no_interval():
    ece, aurc = errors(np.full(60, 0.9), np.ones(60), [str(i) for i in range(60)])
    assert (ece.value, ece.low, ece.high) == (pytest.approx(0.1), None, None)
    assert (aurc.value, aurc.low) == (0.0, None)


def test_abstentions_are_attempts_that_are_not_answered(store):
    """Of 100 attempts 20 abstain; of the 80 answers those that are sure of .9 are right, those of .5 by half."""

    def attempt(i, epoch):
        said = "90" if i < 60 else "50"
        return ("", 0.0, "") if i < 20 else (f"Confidence: {said} %", float(i % 2 or i < 60), "A")

    run = add(store, 100, attempt)
    found = analyse("abstention", store, [run.run], AnalysisOptions())
    assert found.table.note.startswith("Stated: the confidence that the answer states")
    made = found.record[0]
    assert (made.answered.value, made.right.value) == (0.8, 0.75)
    assert [(point.confidence, point.coverage, point.right.value) for point in made.curve] == [
        (0.9, 0.4, 1.0), (0.5, 0.8, 0.75),
    ]  # fmt: skip
    assert made.surest.value == 0.75
    assert [one and one.confidence for one in made.bounds] == [None, None, pytest.approx(0.55)]
    none = add(store, 100, lambda i, e: ("", 0.0, "") if i < 20 else ("", 1.0, "A"), name="none")
    without = analyse("abstention", store, [none.run], AnalysisOptions())
    assert (without.record[0].answered.value, without.record[0].brier, without.record[0].surest.value) == (
        0.8,
        None,
        1.0,
    )
    assert without.record[0].bounds[1].coverage == 0.8  # 80 answers without an error
    with pytest.raises(UserError, match="lack a confidence of most answers"):
        analyse("calibration", store, [none.run], AnalysisOptions())


def test_the_bound_of_the_risk_is_exact_and_corrected():
    sure = np.repeat([0.95, 0.6], 100)
    wrong = np.concatenate([np.arange(100) < 1, np.arange(100) < 30]).astype(float)
    assert risk_bounds(sure, wrong, [0.01, 0.1, 0.2]) == [None, pytest.approx(0.65), pytest.approx(0.65)]
    assert risk_bounds(sure, wrong, [0.25]) == [0.0]
    assert risk_bounds(np.full(5, -1.0), np.zeros(5)) == [None, None, None]


@pytest.mark.slow
def test_the_bound_is_that_of_libraries():
    """MAPIE's p values of right and wrong, statsmodels' Holm."""
    from statsmodels.stats.multitest import multipletests

    mapie = pytest.importorskip("mapie.risk_control.methods", reason="MAPIE is not installed")
    draw, shown = np.random.default_rng(0), 0
    for count in (100, 400, 1_000):
        sure = draw.random(count)
        wrong = (draw.random(count) > sure**0.3).astype(float)
        given = sure[:, None] >= THRESHOLDS
        counts, bad = given.sum(axis=0), (given * wrong[:, None]).sum(axis=0)
        for risk in (0.1, 0.2, 0.3):
            # It rounds n × share up: a little less, that the last digit of a share does not make one error more.
            values = mapie.compute_hoeffding_bentkus_p_value(
                np.maximum(bad - 1e-9, 0) / counts, counts, np.array([risk]), binary=True
            )
            assert binom.cdf(bad, counts, risk) == pytest.approx(values[:, 0], abs=1e-9)
            lowest = THRESHOLDS[multipletests(values[:, 0], 0.05, "holm")[0]]
            assert risk_bounds(sure, wrong, [risk]) == [lowest.min() if len(lowest) else None]
            shown += bool(len(lowest))
    assert 3 <= shown < 9


def test_garbage_has_figures_or_a_reason(store, tmp_path: Path):
    empty = add(store, 3, lambda i, e: ("", None, ""), name="empty")
    made = analyse("abstention", store, [empty.run], AnalysisOptions())
    assert (made.record[0].right, made.record[0].aurc, made.record[0].curve) == (None, None, ())
    failed = add(store, 3, lambda i, e: ("Confidence: 50 %", None, "A"), name="failed")  # a judge that failed
    assert calibrated(failed, *confidences(store, failed)).left_out == 3
