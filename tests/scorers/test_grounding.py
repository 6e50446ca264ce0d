"""The four measures beside recorded outputs of ragas 0.4.3: its own classes on scripted verdicts and vectors."""

import json
from pathlib import Path

import pytest

from ragrounds.evals.scorers.claim_record import ClaimRecord
from ragrounds.evals.scorers.grounding import GROUNDING, RELEVANCY, cosines

SCORERS = {scorer.name: scorer for scorer in (*GROUNDING.scorers, *RELEVANCY.scorers)}
CASES = json.loads((Path(__file__).parent / "ragas_measures.json").read_text())


def value(case):
    """Our value on the verdicts of a case."""
    scorer = SCORERS[case["measure"]]
    if "generated" in case:
        # ragas drops an empty question, for which our judge gives no reply that can be read.
        flags = tuple(bool(flag) if vector else None
                      for flag, vector in zip(case["noncommittal"], case["generated"], strict=True))  # fmt: skip
        compared = () if None in flags else cosines(case["question"], case["generated"])
        return scorer.figure(ClaimRecord(noncommittal=flags, cosines=compared))
    verdicts = tuple(map(bool, case["verdicts"]))
    rows, claims = tuple((verdict,) for verdict in verdicts), ("a claim",) * len(verdicts)
    record = ClaimRecord(claims=claims, by_passages=rows, gold=claims, gold_by_passages=rows, useful=verdicts)
    return scorer.figure(record)


def test_every_measure_equals_ragas_on_the_same_verdicts():
    assert {case["measure"] for case in CASES} == set(SCORERS)
    differing = []
    for case in CASES:
        expected = None if case["ragas"] == "ValueError" else case["ragas"]  # ragas raises where there is no passage
        # ragas divides by the number of useful passages plus 1e-10.
        if value(case) != (None if expected is None else pytest.approx(expected, abs=1.01e-10)):
            differing.append(case.get("generated", case))
    # Without a question ragas gives 0 or the mean of the others; here the value is missing.
    assert differing == [[None, None, None], [None, [1.0, 1.0], [1.0, 0.0]]]


@pytest.mark.parametrize(
    ("measure", "record"),
    [
        ("faithfulness-together", ClaimRecord(claims=("a", "b"), by_passages=((True,), (None,)))),
        ("context-recall-together", ClaimRecord(gold=("a", "b"), gold_by_passages=((False,), (None,)))),
        ("context-precision-ranked", ClaimRecord(useful=(True, None))),
        ("answer-relevancy", ClaimRecord(noncommittal=(True, True, None))),
    ],
)
def test_a_missing_verdict_leaves_the_measure_missing(measure, record):
    assert SCORERS[measure].figure(record) is None
