"""Labels by consensus: what is kept, and agreement as it is worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.construction.relevance_labels import LabelledPair, check_relevant, consensus, fate
from tests.conftest import Cli
from tests.extensions.construction.annotating import kappa

MODELS = ("m1", "m2", "m3")
LABELS = [
    ("S", "A", "S"),  # all relevant
    ("A", "A", "A"),
    ("B", "C", "D"),  # none relevant
    ("D", "D", "D"),
    ("S", "B", "A"),  # parted: two of three
    ("C", "C", "S"),  # parted: one of three
    ("A", None, "A"),  # one is missing
]
PAIRS = [LabelledPair(query="q", document=f"d{n}", grades=grades) for n, grades in enumerate(LABELS)]


def test_only_what_all_agree_on_is_kept() -> None:
    found = [fate(grades) for grades in LABELS]
    assert found == ["positive", "positive", "negative", "negative", "dropped", "dropped", "unlabelled"]
    made = consensus(MODELS, PAIRS)
    assert made.counts == {"positive": 2, "negative": 2, "dropped": 2, "unlabelled": 1}
    assert made.pairs == 7
    assert made.grades["m2"] == {"A": 2, "C": 2, "D": 1, "B": 1, "missing": 1}


def test_kappa_is_the_one_worked_out_by_hand() -> None:
    made = consensus(MODELS, PAIRS)
    # S, A, B, C, D of the six pairs that all three graded
    grades = [(2, 1, 0, 0, 0), (0, 3, 0, 0, 0), (0, 0, 1, 1, 1), (0, 0, 0, 0, 3), (1, 1, 1, 0, 0), (1, 0, 0, 2, 0)]
    assert made.kappa == pytest.approx(kappa(grades), abs=1e-12)
    # Worked with a pencil: mean agreement (1/3+1+0+1+0+1/3)/6 = 4/9; chance (16+25+4+9+16)/324 = 70/324.
    assert made.kappa == pytest.approx((4 / 9 - 70 / 324) / (1 - 70 / 324), abs=1e-12)
    # Relevant or not: 3+0, 3+0, 0+3, 0+3, 2+1, 1+2: (1+1+1+1+1/3+1/3)/6 = 7/9, chance 1/2.
    assert made.kappa_relevant == pytest.approx((7 / 9 - 1 / 2) / (1 - 1 / 2), abs=1e-12)


def test_one_label_throughout_has_no_kappa_and_one_model_neither() -> None:
    same = [LabelledPair(query="q", document=str(n), grades=("A", "A")) for n in range(3)]
    assert consensus(("m1", "m2"), same).kappa is None
    alone = consensus(("m1",), [LabelledPair(query="q", document="d", grades=("A",))])
    assert (alone.kappa, alone.counts["positive"]) == (None, 1)
    assert consensus(MODELS, []).kappa is None


def test_which_grades_are_relevant_is_the_users() -> None:
    assert fate(("S", "B", "A"), "SAB") == "positive"
    assert fate(("S", "A", "S"), "S") == "dropped"
    for wrong in ("", "SABCD", "X", "SS"):
        with pytest.raises(UserError, match="each once, not all"):
            check_relevant(wrong)
    assert check_relevant("SAB") == "SAB"


def test_similarity_is_the_mean_grade() -> None:
    assert PAIRS[0].similarity == pytest.approx((4 + 3 + 4) / 3)
    assert PAIRS[2].similarity == pytest.approx((2 + 1 + 0) / 3)
    assert PAIRS[6].similarity is None


def test_what_no_consensus_can_come_of_is_said_before_anything_is_asked(command: Cli, tmp_path: Path) -> None:
    common = ["build", "consensus-labels", "sample", "--corpus", "sample", "--out", str(tmp_path / "x")]
    one, two = ["--labeller", "openai:a"], ["--labeller", "openai:b"]
    cases = {
        "Consensus needs two or more models": one,
        "given twice: it would count twice": [*one, *one],
        "each once, not all": [*one, *two, "--relevant", "XY"],
        "The retriever 'bm25": [*one, *two, "--retriever", "bm25", "--retriever", "bm25[k1=0.9]"],
    }
    for message, options in cases.items():
        done = command(*common, *options)
        assert done.returncode == 2, message
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()
