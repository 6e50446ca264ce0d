import json

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.audit import across

COMMON = {"question": "Which vitamin prevents scurvy in sailors?", "options": ["C", "D"], "answer": "A"}


def write(tmp_path, name, *lines):
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return load(f"jsonl:{path}", tmp_path)


def test_what_two_benchmarks_share(tmp_path):
    near = {**COMMON, "question": "Which vitamin prevents scurvy in old sailors?"}
    first = write(tmp_path, "one", {"id": 1, **COMMON}, {"id": 2, **COMMON})
    second = write(tmp_path, "two", {"id": 1, **COMMON, "answer": "B"}, {"id": 2, **near})
    (made,) = across([first, second])
    assert made.same == (("one/1", "two/1"), ("one/2", "two/1"))
    assert made.golds_differ == made.same
    assert {(pair.first, pair.second) for pair in made.near} == {("one/1", "two/2"), ("one/2", "two/2")}


def test_two_benchmarks_are_needed(tmp_path):
    first = write(tmp_path, "one", {"id": 1, **COMMON})
    with pytest.raises(UserError, match="two or more different benchmarks"):
        across([first, first])


@pytest.mark.data
def test_mirage_holds_the_test_half_of_pubmedqa(data, tmp_path):
    mirage = load(f"mirage/pubmedqa:{data}/mirage/benchmark.json", tmp_path)
    labelled = load(f"pubmedqa:{data}/pubmedqa", tmp_path)
    (made,) = across([mirage, labelled])
    assert len(made.same) == 500
    assert not made.golds_differ
