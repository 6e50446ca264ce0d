"""Figures of claims and citations by pencil. The authors' own programs, in tests/golden, need their data."""

from collections.abc import Sequence

import pytest

from ragrounds.evals.scorers.citations import (
    CitationFigures,
    CitedSentence,
    published_citations,
    read_citations,
    weigh_citations,
)
from ragrounds.evals.scorers.claim_record import ClaimRecord, supported
from ragrounds.evals.scorers.ragchecker import CLAIM_METHOD, RagChecker

# Seven claims of the answer, three of the reference, three passages of which only the first is relevant.
RECORD = ClaimRecord(
    by_gold=(True, False, False, True, False, False, False),
    by_passages=(
        (True, False, False),  # right
        (True, True, False),  # wrong, out of the relevant passage and another one
        (False, True, False),  # wrong, out of another one alone
        (False, False, False),  # right, and in no passage
        (False, False, False),  # wrong, and in no passage
        (False, False, True),
        (False, False, False),
    ),
    by_answer=(True, False, True),
    gold_by_passages=((True, False, False), (True, False, False), (False, False, False)),
)


def figures(record: ClaimRecord) -> dict[str, float | None]:
    return {one.name: one.figure(record) for one in CLAIM_METHOD.scorers if isinstance(one, RagChecker)}


def test_ragcheckers_metrics_by_pencil() -> None:
    assert figures(RECORD) == {
        "claim-f1": pytest.approx(2 * (2 / 7) * (2 / 3) / (2 / 7 + 2 / 3)),
        "claim-precision": pytest.approx(2 / 7),
        "claim-recall": pytest.approx(2 / 3),
        "context-recall": pytest.approx(2 / 3),
        "context-precision": pytest.approx(1 / 3),
        "context-utilization": 0.5,
        "noise-relevant": pytest.approx(1 / 7),
        "noise-irrelevant": pytest.approx(2 / 7),
        "hallucinated-claims": pytest.approx(2 / 7),
        "self-knowledge": pytest.approx(1 / 7),
        "faithfulness": pytest.approx(4 / 7),
    }


def test_claims_without_passages_are_in_none() -> None:
    record = ClaimRecord(by_gold=(True, False), by_passages=((), ()), by_answer=(True,), gold_by_passages=((),))
    assert supported(record.by_passages).tolist() == [0, 0]
    assert {name: value for name, value in figures(record).items() if value} == {
        "claim-f1": pytest.approx(2 / 3),
        "claim-precision": 0.5,
        "claim-recall": 1.0,
    }


@pytest.mark.parametrize(
    ("text", "plain", "places", "fabricated"),
    [
        ("Blue helps [1][3].", "Blue helps.", (0, 2), ()),
        (" Blue helps |[2].", "Blue helps.", (1,), ()),
        ("Blue helps [1, 2].", "Blue helps, 2.", (0,), ()),  # the authors' pattern wants a bracket
        ("Blue helps [0].", "Blue helps.", (-1,), ()),
        ("Blue helps [1][2][3][1].", "Blue helps.", (0, 1, 2), ()),  # three of a sentence count
        ("Blue helps [1][4].", "Blue helps.", (), (4,)),
    ],
)
def test_citations_as_alces_program_reads_them(
    text: str, plain: str, places: tuple[int, ...], fabricated: tuple[int, ...]
) -> None:
    read = published_citations(text, 3)
    assert (read.text, read.places, read.fabricated) == (plain, places, fabricated)
    assert read.void == (2 if fabricated else 0)


@pytest.mark.parametrize("sign", ["⁻", "/L", "a"])
def test_a_superscript_before_another_sign_is_no_citation(sign: str) -> None:
    assert read_citations(f"of cells¹{sign} seen", {1: 0}).places == ()
    assert read_citations(f"of cells¹ {sign} seen", {1: 0}).places == (0,)


SENTENCES = (
    CitedSentence("The last two are needed.", (0, 1, 2)),
    CitedSentence("The first is enough.", (1, 2)),
    CitedSentence("It is not in there.", (2,)),
    CitedSentence("Void.", fabricated=(9,), void=2),
    CitedSentence("It cites nothing."),
)
ENTAILED = {(0, (0, 1, 2)), (0, (1, 2)), (1, (1, 2)), (1, (1,))}


def weighed(sentences: Sequence[CitedSentence], missing: object = None) -> CitationFigures:
    weighing, verdict = weigh_citations(sentences), None
    try:
        while True:
            asked = weighing.send(verdict)
            verdict = None if asked == missing else asked in ENTAILED
    except StopIteration as ended:
        return ended.value


@pytest.mark.parametrize(
    ("missing", "recall", "precision", "unneeded"),
    [
        (None, 2 / 5, 3 / 6, 2),
        ((1, (2,)), 2 / 5, None, 1),  # it may be needed or not
        ((0, (1, 2)), 2 / 5, None, 1),
        ((2, (2,)), None, None, 2),
    ],
)
def test_alces_figures_by_pencil(missing: object, recall: float | None, precision: float | None, unneeded: int) -> None:
    found = weighed(SENTENCES, missing)
    assert (found.recall, found.precision, found.unneeded) == (recall, precision, unneeded)
    assert (found.sentences, found.cited, found.several, found.several_entailed) == (5, 6, 3, 2)


def test_without_a_sentence_nothing_is_cited_or_missed() -> None:
    found = weighed(())
    assert (found.recall, found.precision) == (None, None)
