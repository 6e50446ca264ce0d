"""What `ragrounds data add` copies, and what it and `ragrounds data verify` refuse."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import load, register, verify
from ragrounds.extensions.retrieval.query_sets import query_set


def lines(path, *values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def files(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def pubmedqa(tmp_path):
    folder = tmp_path / "pubmedqa" / "data"
    entry = {"QUESTION": "Does it?", "final_decision": "yes"}
    lines(folder / "ori_pqal.json", {"1": entry, "2": entry})
    lines(folder / "test_ground_truth.json", {"2": "yes"})
    return folder


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "tiny"
    lines(folder / "corpus.jsonl", {"_id": "d1", "title": "", "text": "asthma"}, {"_id": "d2", "text": "statins"})
    lines(folder / "queries.jsonl", {"_id": "q1", "text": "asthma"}, {"_id": "q2", "text": "statins"})
    (folder / "qrels").mkdir()
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n")
    return folder


@pytest.fixture
def r2med(tmp_path):
    folder = tmp_path / "R2MED" / "Biology"
    lines(folder / "query.jsonl", {"id": "0", "text": "Why?", "answer": "So."})
    lines(folder / "corpus.jsonl", {"id": "d1", "text": "…"})
    lines(folder / "qrels.jsonl", {"q_id": "0", "p_id": "d1", "score": 1})
    return folder


GRAPH = "a\tis\tb\na\thas\tb\na\tuses\tc\nc\tmakes\ta\n"
KQA = {"Question": "Why?", "Free_form_answer": "So.", "Must_have": ["a"], "Nice_to_have": []}


def test_the_files_of_a_folder_inside_are_copied(pubmedqa, home):
    for path in (pubmedqa.parent, pubmedqa):
        assert len(register("pubmedqa", path, home)) == 2
        assert verify("pubmedqa", home).questions == 2
        assert load("pubmedqa/test", home).counts == {"pubmedqa/test": 1}
    lines(pubmedqa.parent.parent / "kqa/dataset/questions_w_answers.jsonl", KQA)
    register("kqa", pubmedqa.parent.parent / "kqa", home)
    assert verify("kqa", home).questions == 1


@pytest.mark.parametrize("name", ["ori_pqal.json", "mine.json"])
def test_a_lone_file_brings_what_was_read_beside_it(pubmedqa, home, name):
    (pubmedqa / "ori_pqal.json").rename(pubmedqa / name)
    register("pubmedqa", pubmedqa / name, home)
    assert files(home / "benchmarks/pubmedqa") == ["ori_pqal.json", "test_ground_truth.json"]
    assert verify("pubmedqa", home).questions == 2


def test_a_lone_file_is_read_as_a_lone_file(tmp_path, home):
    graph = tmp_path / "test.txt"
    graph.write_text(GRAPH)
    added = register("link/umls", graph, home)
    assert load("link/umls", home).version == added.version
    pairs = lines(tmp_path / "pairs.jsonl", {"query": "?", "pos": ["x"], "neg": ["y"]})
    added = register("cmedteb/mine", pairs, home)
    assert load("cmedteb/mine", home).version == added.version
    asked = query_set("cmedteb/mine", home=home)
    assert (list(asked.queries.values()), len(asked.pools["q1"])) == (["?"], 2)


def test_a_dataset_is_registered_under_its_own_name(beir, home):
    assert register("beir", beir, home).name == "beir/tiny"
    assert len(load("beir/tiny", home)) == 2
    with pytest.raises(UserError, match="is not here yet"):
        load("beir/other", home)
    odd = beir.rename(beir.with_name("my set"))
    with pytest.raises(UserError, match=r"'beir/my set' cannot be a benchmark's name; choose one"):
        register("beir", odd, home)


def test_a_copy_that_does_not_read_again_replaces_nothing(pubmedqa, home, monkeypatch):
    register("pubmedqa", pubmedqa, home)
    before = files(home)
    monkeypatch.setattr("ragrounds.evals.benchmarks.registry.shutil.copyfile", lambda source, copy: copy.touch())
    with pytest.raises(UserError, match="so nothing was registered") as caught:
        register("pubmedqa", pubmedqa, home)
    assert "\n" not in str(caught.value)
    assert files(home) == before
    assert len(load("pubmedqa", home)) == 2


def test_a_registered_set_is_found_by_name_to_retrieve_from(beir, r2med, home):
    register("beir/mine", beir, home)
    register("r2med", r2med.parent, home)
    asked = query_set("beir/mine", home=home)
    assert (asked.name, asked.judgements) == ("mine", {"q1": {"d1": 1}, "q2": {"d2": 2}})
    assert asked.corpus == f"beir:{home}/benchmarks/beir--mine"
    (beir / "qrels/train.tsv").write_text("q1\td1\t1\n")
    assert query_set(f"beir[split=train]:{beir}", home=home).judgements == {"q1": {"d1": 1}}
    asked = query_set("r2med/biology", home=home)
    assert (asked.queries, asked.corpus) == ({"0": "Why?"}, f"r2med:{home}/benchmarks/r2med--biology/Biology")
    with pytest.raises(UserError, match="'beir/yours' is not here yet"):
        query_set("beir/yours", home=home)


def test_the_hashes_that_build_wrote_are_compared(beir, home):
    hashes = {name: hashlib.sha256((beir / name).read_bytes()).hexdigest() for name in files(beir)}
    card = {"name": "beir/tiny", "title": "Tiny", "task": "retrieval", "source": "here", "license": "CC0"}
    (beir / "card.json").write_text(json.dumps({"benchmark": card, "made": {"files": hashes}}))
    register("beir/tiny", beir, home)
    described = {"corpus.jsonl": True, "qrels/test.tsv": True, "queries.jsonl": True}
    assert verify("beir/tiny", home).files == described | {"card.json": None}
    with (home / "benchmarks/beir--tiny/corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "d3", "text": "more"}\n')
    assert verify("beir/tiny", home).files == described | {"card.json": None, "corpus.jsonl": False}
    # A set that was a folder inside: its card's names begin with that folder.
    inside = {f"sets/{name}": hash for name, hash in hashes.items()}
    (beir / "card.json").write_text(json.dumps({"benchmark": card, "made": {"files": inside}}))
    assert verify(f"beir:{beir}", home).files == described | {"card.json": None}


def rewrite(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def _twice(folder):
    """A query that is not judged, so that the questions do not show it."""
    lines(folder / "queries.jsonl", *({"_id": name, "text": "x"} for name in ("q1", "q3", "q3", "q2")))


HEAD = b"query-id\tcorpus-id\tscore\n"
BEIR = [
    (lambda folder: (folder / "corpus.jsonl").unlink(), "holds no corpus.jsonl"),
    (rewrite("corpus.jsonl", b'{"_id": "d1", "text": "x"}\n{"_id": "d2", "te'), "corpus.jsonl: line 2: "),
    (rewrite("corpus.jsonl", b'{"_id": "d1", "text": "\xe9"}\n'), "corpus.jsonl: line 1: "),
    (rewrite("corpus.jsonl", b'{"_id": "d1"}\n'), "line 1: it has no text"),
    (rewrite("corpus.jsonl", b'{"_id": "d1", "text": "x"}\n' * 2), "line 2: the id 'd1' is not unique"),
    (rewrite("corpus.jsonl", b""), "corpus.jsonl: the corpus contains no documents"),
    (_twice, "queries.jsonl: line 3: the id 'q3' is not unique"),
    (rewrite("qrels/test.tsv", HEAD + b"q1\td9\t1\n"), "query 'q1': corpus.jsonl has no document 'd9'"),
    (rewrite("qrels/train.tsv", HEAD + b"q9\td1\t1\n"), "train.tsv: query 'q9': queries.jsonl has no such query"),
    (rewrite("qrels/test.tsv", b"q1\td1\t1\nq1\td1\t0\n"), "line 2: the document 'd1' is judged 1 and 0 for"),
    (rewrite("qrels/test.tsv", b"q1\td1\tnan\n"), "line 1: expected query, document and score"),
]


@pytest.mark.parametrize(("change", "said"), BEIR)
def test_a_broken_beir_folder_is_neither_added_nor_verified(beir, home, change, said):
    register("beir/tiny", beir, home)
    change(beir)
    copy = home / "benchmarks/beir--tiny"
    with pytest.raises(UserError, match=said) as caught:
        register("beir/tiny", beir, home)
    assert "\n" not in str(caught.value)
    assert verify("beir/tiny", home).questions == 2
    shutil.rmtree(copy)
    shutil.copytree(beir, copy)
    with pytest.raises(UserError, match=said):
        verify("beir/tiny", home)


def test_a_judgement_may_stand_twice_with_one_score(beir, home):
    (beir / "qrels/test.tsv").write_text("q1\td1\t1\nq1\td1\t1\n")
    assert register("beir/tiny", beir, home).golds["tiny/q1"].documents == ("d1",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"q_id": "9", "p_id": "d1"}, "qrels.jsonl: query '9': query.jsonl has no such query"),
        ({"q_id": "0", "p_id": "d9"}, "qrels.jsonl: query '0': corpus.jsonl has no document 'd9'"),
        ({"q_id": "0", "p_id": "d1", "score": 0}, "line 2: the document 'd1' is judged 1 and 0"),
    ],
)
def test_r2med_judges_what_is_there(r2med, home, row, said):
    register("r2med/biology", r2med, home)
    lines(r2med / "qrels.jsonl", {"q_id": "0", "p_id": "d1", "score": 1}, row)
    with pytest.raises(UserError, match=said):
        register("r2med/biology", r2med, home)
    with pytest.raises(UserError, match=said):
        verify(f"r2med/biology:{r2med}", home)


def test_questions_alone_are_read_without_the_corpus(beir, home):
    (beir / "corpus.jsonl").unlink()
    assert len(load(f"beir:{beir}", home)) == 2


def test_a_question_ends_a_line_by_itself(tmp_path, home):
    path = lines(tmp_path / "benchmark.json", {"mmul": {}})
    with pytest.raises(UserError, match=r"Did you mean 'mmlu'\?$"):
        load(f"mirage:{path}", home)


def test_the_folder_that_one_stands_in_has_a_name(beir, home, monkeypatch):
    monkeypatch.chdir(beir)
    assert register("beir", Path(), home).name == "beir/tiny"
