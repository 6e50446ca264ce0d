import msgspec
import pytest

from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.audit import audit, exact, in_corpus, options
from ragrounds.records import Gold, Question


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
