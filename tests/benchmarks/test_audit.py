import json

import msgspec
import pytest

from ragrounds.api.data import audit as api_audit
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.audit import audit, exact, in_corpus, options, replies
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.scorers.robust import read_robustly
from ragrounds.ui.tables.benchmark_tables import audit_lines


def asked(id, text, choices=("one", "two", "three", "four"), **more):
    return Question(id=id, benchmark="x", text=text, options=dict(zip("ABCD", choices, strict=False)), **more)


def test_exact_duplicates_and_golds_that_differ():
    questions = [asked("1", "Which?", group="a"), asked("2", " WHICH? ", group="b"), asked("3", "Which one?")]
    (found,) = exact(questions, {"1": "one", "2": "two", "3": "one"})
    assert found.questions == ("1", "2")
    assert found.groups == ("x (a)", "x (b)")
    assert found.golds_differ


def test_options():
    questions = [asked(str(number), f"{number}?", ("a", "b", "the longest one", "d")) for number in range(40)]
    golds = [Gold(question_id=q.id, answer="C" if index % 2 else "A") for index, q in enumerate(questions)]
    made = options("x", questions, golds)
    assert made.letters == {"A": 20, "B": 0, "C": 20, "D": 0}
    assert made.longest == 0.5
    assert made.best_constant == 0.5


def test_no_choices_no_options():
    assert (
        options("x", [Question(id="1", benchmark="x", text="?", kind="long")], [Gold(question_id="1", answer="")])
        is None
    )


def full_width(tmp_path, second="Ｂ"):
    lines = [
        {"id": 1, "question": "首选药物是？", "options": {"Ａ": "阿司匹林", second: "肝素"}, "answer": "Ａ"},
        {"id": 2, "question": "首选检查是？", "options": {"Ａ": "心电图", "Ｂ": "胸片"}, "answer": "B"},
    ]
    file = tmp_path / "zh.jsonl"
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return file


@pytest.mark.parametrize("reply", ["答案是A。", "答案是Ａ。", '{"answer_choice": "A"}', "A"])
def test_full_width_labels_are_the_letters_that_answers_name(tmp_path, reply):
    made = load(f"jsonl:{full_width(tmp_path)}", tmp_path)
    assert [list(question.options) for question in made.questions] == [["A", "B"]] * 2
    assert [made.golds[question.id].answer for question in made.questions] == ["A", "B"]
    for question in made.questions:
        attempt = Attempt(run="r", question_id=question.id, epoch=0, status="completed", text=reply)
        (robust, *_) = scorers_for(question)
        assert robust.score(attempt, question, made.golds[question.id]).prediction == "A"


def test_two_labels_that_are_one_letter_are_refused(tmp_path):
    with pytest.raises(UserError, match="two of its labels are one letter"):
        load(f"jsonl:{full_width(tmp_path, 'A')}", tmp_path)


def test_an_audit_answers_with_each_option_and_says_which_forms_are_not_read(tmp_path):
    found = api_audit(f"jsonl:{full_width(tmp_path)}", home=tmp_path)
    assert [(form.read, form.of) for form in found.replies] == [(4, 4)] * 4
    assert list(audit_lines(found))[-1] == "self-test of the answer reader: 16 of 16"
    # As labels were before: an answer's letter is read in another form than theirs.
    question = asked("1", "?")
    wide = msgspec.structs.replace(question, options={"Ａ": "one", "Ｂ": "two"})
    forms = replies("x", [wide], robust_label)
    assert [(form.example, form.read, form.of) for form in forms][:2] == [
        ('{"answer_choice": "Ａ"}', 0, 2), ("Ａ", 0, 2),
    ]  # fmt: skip
    made = msgspec.structs.replace(found, replies=(*forms[:1], *replies("y", [wide], robust_label)[:1]))
    assert list(audit_lines(made))[-1] == (
        'of 4 replies like \'{"answer_choice": "Ａ"}\' 0 are read as they are meant (x, y)'
    )


def robust_label(question, text):
    return read_robustly(text, question).prediction


def test_a_corpus_that_holds_a_question():
    text = "A man of sixty years has had a cough for three weeks and now loses weight."
    questions = [
        asked("1", text),
        asked("2", "Short?"),
        asked("3", text.replace("cough", "fever") + " More words now."),
    ]
    golds = {
        "1": Gold(question_id="1", answer="A", documents=("d1",)),
        "2": Gold(question_id="2", answer="A", documents=("d9",)),
        "3": Gold(question_id="3", answer="A"),
    }
    found = in_corpus(questions, golds, [("d1", f"Case 1. {text.upper()}"), ("d2", "Nothing of it stands in here.")])
    assert found.documents == 2
    assert found.sources == ("1",)
    assert found.without_source == ("2",)
    assert [(copy.question, copy.document, copy.share) for copy in found.copies] == [("1", "d1", 1.0)]
    assert found.short == 1


@pytest.fixture(scope="module")
def mirage(data, tmp_path_factory):
    return load(f"mirage:{data}/mirage/benchmark.json", tmp_path_factory.mktemp("home"))


@pytest.mark.data
def test_the_audit_of_mirage(mirage):
    made = audit(mirage)
    both = ("mirage/mmlu (clinical_knowledge)", "mirage/mmlu (college_medicine)")
    assert sum(found.groups == both for found in made.duplicates) == 78
    assert len(made.duplicates) == 80
    assert not any(found.golds_differ for found in made.duplicates)
    medmcqa = next(found for found in made.options if found.dataset == "mirage/medmcqa")
    assert round(100 * medmcqa.letters["A"] / medmcqa.questions) == 32
    assert msgspec.json.decode(msgspec.json.encode(made))["questions"] == 7_663


@pytest.mark.data
def test_pubmedqa_abstracts_are_sources_not_copies(mirage, data):
    import json

    with (data / "beir" / "pubmedqa_1k" / "corpus.jsonl").open(encoding="utf-8") as lines:
        documents = [(row["_id"], f"{row['title']} {row['text']}") for row in map(json.loads, lines)]
    questions = [question for question in mirage.questions if question.benchmark == "mirage/pubmedqa"]
    found = in_corpus(questions, mirage.golds, documents)
    assert len(found.sources) == 500
    assert found.documents == 1_000
