"""TREC files: what is written is read again, and what cannot be read is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.extensions.retrieval.measures import ordered
from ragrounds.extensions.retrieval.trec import read_judgements, read_run, write_run

_id = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=8)
_score = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@given(run=st.dictionaries(_id, st.dictionaries(_id, _score, min_size=1), min_size=1))
def test_a_run_that_was_written_is_read_with_its_order(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("r") / "x.run"
    write_run(path, {query: list(documents.items()) for query, documents in run.items()}, "bm25[k1=0.9] x")
    again = read_run(path)
    assert {query: [d for d, _ in ordered(documents)] for query, documents in again.items()} == {
        query: [d for d, _ in ordered(documents)] for query, documents in run.items()
    }
    assert {len(line.split()) for line in path.read_text(encoding="utf-8").split("\n") if line} == {6}


@pytest.mark.parametrize("name", ["a b", "", "a\tb", "a\nb"])
def test_ids_that_the_format_cannot_carry(name, tmp_path):
    with pytest.raises(UserError, match="cannot carry"):
        write_run(tmp_path / "x.run", {"q": [(name, 1.0)]}, "tag")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("q Q0 d 1 2.0 t\nq Q0 d 2 1.0 t\n", "line 2 .*twice"),
        ("q Q0 d 1 high t\n", "line 1 .*not a number"),
        ("q Q0 d 1 nan t\n", "line 1 .*not a finite"),
        ("q d 1\n", "line 1 .*expected"),
        ("\n", "is empty"),
    ],
)
def test_runs_that_cannot_be_read(text, reason, tmp_path):
    (tmp_path / "x.run").write_text(text)
    with pytest.raises(UserError, match=reason):
        read_run(tmp_path / "x.run")


def test_the_three_forms_of_judgements(tmp_path):
    expected = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}}
    (tmp_path / "trec").write_text("q1 0 d1 1\nq1\t0\td2\t0\n\nq2 0 d3 2\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n \t\t \nq1\td2\t0\nq2\td3\t2\n")
    (tmp_path / "r2med.jsonl").write_text(
        '{"q_id": "q1", "p_id": "d1", "score": 1}\n{"q_id": "q1", "p_id": "d2", "score": 0}\n'
        '{"q_id": "q2", "p_id": "d3", "score": 2.0}\n'
    )
    for name in ("trec", "beir.tsv", "r2med.jsonl"):
        assert read_judgements(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("x.tsv", "q d 1.5\n", "query 'q': the grade 1.5 .*whole number"),
        ("x.tsv", "q d\n", "line 1: expected"),
        ("x.tsv", "q1 0 d1 yes\nq2 0 d2 1\n", "line 1: expected"),
        ("x.tsv", "q1\td1\tone\nq2\td2\t1\n", "line 1: expected"),
        ("x.jsonl", '{"q_id": "a"}\n', "line 1: .*p_id"),
        ("x.tsv", "query-id\tcorpus-id\tscore\n", "are empty"),
    ],
)
def test_judgements_that_cannot_be_read(name, text, reason, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=reason):
        read_judgements(tmp_path / name)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match="Cannot read"):
        read_run(tmp_path / "nothing")


def test_two_grades_for_one_pair_are_an_error(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("q\td\t1\nq\td\t1\n")
    assert read_judgements(path) == {"q": {"d": 1}}
    path.write_text("q\td\t1\nq\td\t0\n")
    with pytest.raises(UserError, match="line 2: the document 'd' is judged 1 and 0 for the query 'q'"):
        read_judgements(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_first_id(encoding, tmp_path):
    path = tmp_path / "x"
    path.write_text("q1 Q0 d 1 2.0 t\n", encoding=encoding)
    assert read_run(path) == {"q1": {"d": 2.0}}
    path.write_text("q1 0 d 1\n", encoding=encoding)
    assert read_judgements(path) == {"q1": {"d": 1}}
    path.write_text('{"q_id": "q1", "p_id": "d"}\n', encoding=encoding)
    path.rename(path.with_suffix(".jsonl"))
    assert read_judgements(path.with_suffix(".jsonl")) == {"q1": {"d": 1}}
