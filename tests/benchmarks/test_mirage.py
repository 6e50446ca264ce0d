import json
from collections import Counter

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import card, load, register, select

SMALL = {
    "pubmedqa": {
        "123": {
            "question": "Does it  work?",
            "options": {"A": "yes", "B": "no", "C": "maybe"},
            "answer": "A",
            "PMID": [123, 45],
        }
    },
    "mmlu": {
        "clinical_knowledge-000": {"question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"},
        "college_medicine-000": {"question": " which? ", "options": {"A": "X", "B": "y"}, "answer": "B"},
        "anatomy-000": {"question": "Which?", "options": {"A": "x", "B": "z"}, "answer": "B"},
    },
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "benchmark.json"
    path.write_text(json.dumps(SMALL))
    return path


def test_ids_groups_documents_and_golds_apart(file, tmp_path):
    benchmark = load(f"mirage:{file}", tmp_path)
    first = benchmark.questions[0]
    assert first.id == "pubmedqa/123"
    assert first.benchmark == "mirage/pubmedqa"
    assert benchmark.golds[first.id].answer == "A"
    assert benchmark.golds[first.id].documents == ("123", "45")
    assert [question.group for question in benchmark.questions[1:]] == [
        "clinical_knowledge",
        "college_medicine",
        "anatomy",
    ]
    assert benchmark.datasets == ("mirage/pubmedqa", "mirage/mmlu")


def test_equal_content_is_one_cluster_and_another_option_is_not(file, tmp_path):
    clusters = [question.cluster for question in load(f"mirage/mmlu:{file}", tmp_path).questions]
    assert clusters == ["mmlu/clinical_knowledge-000", "mmlu/clinical_knowledge-000", ""]


def test_the_version_follows_content(file, tmp_path):
    before = load(f"mirage:{file}", tmp_path).version
    assert load(f"mirage:{file}", tmp_path).version == before
    other = json.loads(file.read_text())
    other["pubmedqa"]["123"]["answer"] = "B"
    file.write_text(json.dumps(other))
    assert load(f"mirage:{file}", tmp_path).version != before


def test_a_registered_copy_is_found_by_name(file, tmp_path):
    home = tmp_path / "home"
    with pytest.raises(UserError, match=r"ragrounds data add mirage/pubmedqa PATH`, where PATH is benchmark.json"):
        load("mirage/pubmedqa", home)
    register("mirage", file, home)
    assert [question.id for question in load("mirage/pubmedqa", home).questions] == ["pubmedqa/123"]
    assert len(load("mirage", home)) == 4


def test_a_broken_file_is_not_registered(tmp_path):
    path = tmp_path / "benchmark.json"
    path.write_text("{")
    with pytest.raises(UserError):
        register("mirage", path, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def broken(change):
    content = json.loads(json.dumps(SMALL))
    change(content)
    return json.dumps(content).encode()


def setting(field, value):
    return broken(lambda content: content["pubmedqa"]["123"].__setitem__(field, value))


TWICE = b'{"pubmedqa": {"1": {"question": "a", "options": {"A": "x", "B": "y"}, "answer": "A"}, "1": {}}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b" \n ", "the file is empty"),
        (json.dumps(SMALL).encode()[:150], "line 1, column .*cut off"),
        (b"[1, 2]", r"expected `object`, got `array`"),
        (b'{"pubmedqa": nonsense}', "line 1, column 14: this is not JSON"),
        (b'{"pubmedqa": {"1": {"question": NaN}}}', "NaN is not a JSON number"),
        (b"[" * 100_000, "nested too deeply"),
        ("{}".encode("utf-16")[:-1], "line 1: its first bytes mark it as UTF-16, and it is not"),
        (b'{"pubmedqa": \xe9}', "line 1: byte 13 is not UTF-8"),
        (b"{}", "contains no questions"),
        (b'{"pubmedqa": {}}', "pubmedqa: the dataset contains no questions"),
        (b'{"pubmdqa": {}}', "'pubmdqa': there is no dataset .* Did you mean 'pubmedqa'"),
        (TWICE, "'1' is twice"),
        (setting("answer", "D"), "question 'pubmedqa/123': the answer 'D' is not among the options"),
        (setting("answer", 3), "record '123' of pubmedqa: expected `str`, got `int` at answer"),
        (setting("options", {"A": "yes"}), "it has 1 options"),
        (setting("options", {"A": "yes", "B": " "}), "the option 'B' is empty"),
        (setting("question", "  "), "the question is empty"),
        (setting("question", "x" * 10_000_000), "record '123' .*'question' is 10,000,000 characters long"),
        (setting("question", "\ud83d"), "record '123' .* half a surrogate pair"),
        (broken(lambda content: content["mmlu"]["anatomy-000"].pop("options")), "'anatomy-000' .* no field `options`"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path, content, said):
    path = tmp_path / "benchmark.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        load(f"mirage:{path}", tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 500


def test_hostile_names_are_shown_escaped(tmp_path):
    path = tmp_path / "benchmark.json"
    path.write_text(json.dumps({"\x1b[31mred\n": {}}))
    with pytest.raises(UserError) as caught:
        load(f"mirage:{path}", tmp_path)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("mirag", "Did you mean 'mirage'"),
        ("mirage/pubmed:x.json", "Did you mean 'mirage/pubmedqa'"),
        ("mirage:/no/such.json", "/no/such.json: there is no such file"),
        ("mirage:", "has no path"),
        ("", "expected `name`"),
        ("jsonl", "needs a path"),
    ],
)
def test_a_wrong_reference_says_what_to_write(tmp_path, reference, said):
    with pytest.raises(UserError, match=said):
        load(reference, tmp_path)


@pytest.mark.data
def test_the_real_file(data, tmp_path):
    benchmark = load(f"mirage:{data}/mirage/benchmark.json", tmp_path)
    assert benchmark.counts == {
        name: card(name).size
        for name in ("mirage/medqa", "mirage/medmcqa", "mirage/pubmedqa", "mirage/bioasq", "mirage/mmlu")
    }
    assert len(benchmark) == card("mirage").size == 7_663
    sizes = Counter(question.cluster for question in benchmark.questions if question.cluster)
    assert set(sizes.values()) == {2}
    in_dataset = Counter(cluster.partition("/")[0] for cluster in sizes)
    assert in_dataset == {"mmlu": 78, "bioasq": 2}
    groups = Counter(question.group for question in benchmark.questions if question.benchmark == "mirage/mmlu")
    assert groups["professional_medicine"] == 272
    assert len(groups) == 6


@pytest.mark.data
def test_the_version_of_the_real_file_is_stable(data, tmp_path):
    benchmark = load(f"mirage:{data}/mirage/benchmark.json", tmp_path)
    assert benchmark.version.startswith("e51095a5773d827a")
    assert len(select(benchmark, per_dataset=10).questions) == 50
