import json

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks import load


def write(tmp_path, *lines, name="mine.jsonl"):
    path = tmp_path / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return f"jsonl:{path}"


def test_choices_and_long_answers(tmp_path):
    benchmark = load(
        write(
            tmp_path,
            {
                "id": 1,
                "question": "Which?",
                "options": ["x", "y"],
                "answer": "y",
                "group": "g",
                "source": "here",
                "metadata": {"year": "2001"},
            },
            "",
            {"id": "b", "question": "Why?", "facts": [["because", "since"]], "answer": "", "language": "zh"},
        ),
        tmp_path,
    )
    first, second = benchmark.questions
    assert (first.id, first.benchmark, first.options) == ("mine/1", "jsonl/mine", {"A": "x", "B": "y"})
    assert benchmark.golds["mine/1"].answer == "B"
    assert first.metadata == {"year": "2001"}  # named as such; a stray field could give the answer away
    assert (second.kind, second.language) == ("long", "zh")
    assert benchmark.golds["mine/b"].facts == (("because", "since"),)
    assert benchmark.card.task == "mixed"


def test_more_options_than_letters_are_numbered(tmp_path):
    benchmark = load(
        write(tmp_path, {"id": 1, "question": "?", "options": [f"o{n}" for n in range(30)], "answer": "30"}), tmp_path
    )
    assert list(benchmark.questions[0].options)[-1] == "30"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"id": 1, "question": "?", "options": ["x", "y"], "answer": "C"}, "'C' is not among the options"),
        ({"id": 1, "question": "?", "options": ["x", "x"], "answer": "x"}, "'x' is not among the options"),
        ({"id": 1, "question": "?", "options": ["x", "y"]}, "line 2: it has no field `answer`"),
        ({"id": 1, "question": "?"}, "line 2: a long-form question needs"),
        ({"id": "ok", "question": "?", "answer": "a"}, "'mine/ok': this id stands twice"),
        ({"question": "?", "answer": "a"}, "line 2: it has no field `id`"),
        ({"id": "a\x1b[2J", "question": "?", "answer": "a"}, "an id has no control characters"),
        ({"id": "a" * 600, "question": "?", "answer": "a"}, "at most 500 characters"),
        ('{"id": 1, "question": "?", "answer": "a", "more": ' + "[" * 100_000, "nested too deeply"),
        ({"id": " ", "question": "?", "answer": "a"}, "line 2: the id is empty"),
        ({"id": 1, "question": "?", "facts": [[]]}, "line 2: each fact needs"),
        ({"id": 1, "question": "?", "answer": "a", "type": "essay"}, "line 2: Invalid enum value 'essay' at type"),
        ('{"id": 1, "question": "?", "ans', "line 2: the line is cut off"),
        ('{"id": 1, "id": 2, "question": "?"}', "line 2: 'id' stands twice"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    with pytest.raises(UserError, match=said):
        load(write(tmp_path, {"id": "ok", "question": "?", "answer": "a"}, line), tmp_path)


def test_a_damaged_archive(tmp_path):
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00broken")
    with pytest.raises(UserError, match="the archive is damaged"):
        load(f"jsonl:{path}", tmp_path)
