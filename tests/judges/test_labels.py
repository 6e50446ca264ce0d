import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.judges.labels import agreement, read_labels


def test_labels_and_a_judge(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("item,anna,ben,carl\n1,Yes,yes,no\n2,no,no,\n3,yes,no,\n4,no,no,no\n")
    labels = read_labels(file)
    assert labels.raters == ("anna", "ben", "carl")
    assert labels.gold == {"1": "yes", "2": "no", "4": "no"}
    assert labels.kappa is None
    assert labels.alpha is not None
    made = agreement({"1": "YES", "2": "yes", "9": "no"}, labels)
    assert (made.judge.n, made.unmatched, made.undecided) == (2, 1, 1)
    assert made.judge.accuracy.value == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,a\n1,x\n", "no column 'item'"),
        ("item\n1\n", "column with labels is missing"),
        ("item,a\n1,x\n1,y\n", "line 3: the item '1' is in it twice"),
        ("item,a\n", "holds no labels"),
    ],
)
def test_a_broken_file(tmp_path, text, said):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        read_labels(file)


@pytest.mark.data
def test_the_doctors_of_kqa(data):
    file = data / "kqa" / "dataset" / "NLI_medical_annotator.csv"
    labels = read_labels(file, item="", raters=["label_0", "label_1", "label_2"])
    assert len(labels.items) == 399
    assert round(labels.kappa, 3) == 0.719
    one = agreement({item: given[0] for item, given in labels.items.items()}, labels)
    assert one.judge.kappa > 0.719
    assert one.undecided < 15
