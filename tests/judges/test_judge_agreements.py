"""Each judge of a panel against people, and K-QA's physicians as people."""

import csv
import json

import pytest

from ragrounds.api.people import judge_agreement
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.judges.labels import people_labels
from tests.cli_grading.test_judge_command import stage
from tests.ui.report.test_report_verdicts import ANSWERS, judged, says

LINE = {"Free_form_answer": "Rest.", "Nice_to_have": ["Tea helps."], "Must_have": ["Rest is best", "No aspirin"]}


def test_each_judge_stands_beside_the_majority(home, tmp_path):
    stage(home, "direct", ANSWERS)
    judged(home, says("strict"), says("mild"))
    sheet = tmp_path / "labels.csv"
    rows = [f"og/{n},{text},{'Equivalent' if n in (0, 1, 4) else 'mismatch'}" for n, text in enumerate(ANSWERS) if text]
    sheet.write_text("\n".join(["item,answer,anna", *rows]) + "\n")
    found = judge_agreement("direct", sheet, settings=Settings(home=home)).agreement
    assert found.panel
    # "red three" is the one that only the mild judge takes.
    assert (found.judge.n, found.judge.missing, found.undecided_judges) == (4, 1, 1)
    alone = {one.judge: one.agreement for one in found.judges}
    assert {name: one.n for name, one in alone.items()} == {"test:<b>strict</b>": 5, "test:<b>mild</b>": 5}
    assert alone["test:<b>strict</b>"].accuracy.value == 1.0
    assert alone["test:<b>mild</b>"].accuracy.value == 0.8


@pytest.fixture
def kqa(tmp_path):
    """Two questions, and a sheet as the physicians'."""
    lines = [{"Question": "Is tea good?", **LINE}, {"Question": "A cold?", **LINE}]
    (tmp_path / "questions_w_answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with (tmp_path / "NLI_medical_annotator.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["", "Question", "answer", "claim", "label_0", "label_1", "label_2"])
        rows.writerow([0, "A cold?", "Rest, and tea.", "Tea helps", "Entailment", "Neutral", "Entailment"])
        rows.writerow([1, "A cold?", "Rest, and tea.", "Nobody says so.", "Neutral", "Neutral", "Neutral"])
    return tmp_path


def test_the_physicians_of_a_folder(kqa):
    found = people_labels(f"kqa:{kqa}")
    assert found.items == {"kqa/1#3": ("entailment", "neutral", "entailment")}
    assert found.marks["kqa/1#3"].answer == "Rest, and tea."
    assert people_labels(f"kqa:{kqa}", raters=["label_1"]).items == {"kqa/1#3": ("neutral",)}
    with pytest.raises(UserError, match="no column 'label_9'"):
        people_labels(f"kqa:{kqa}", raters=["label_9"])
    (kqa / "NLI_medical_annotator.csv").unlink()
    with pytest.raises(UserError, match="the folder holds no NLI_medical_annotator"):
        people_labels(f"kqa:{kqa}")


@pytest.mark.data
def test_the_physicians_of_the_release(data):
    assert len(people_labels(f"kqa:{data / 'kqa'}").items) == 391
