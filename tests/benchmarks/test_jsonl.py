import json

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.files import read_jsonl
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


def mapped(reference, mapping):
    return reference.replace("jsonl:", f"jsonl[{mapping}]:")


def test_a_mapping_of_fields(tmp_path):
    medqa = {"id": 1, "stem": "Which?", "answer": "Scurvy", "options": {"A": "x", "B": "Scurvy"}, "answer_idx": "B"}
    benchmark = load(mapped(write(tmp_path, medqa), "question=stem,answer=answer_idx"), tmp_path)
    assert benchmark.questions[0].text == "Which?"
    assert benchmark.golds["mine/1"].answer == "B"


@pytest.mark.parametrize(("first", "answer"), [(0, "C"), (1, "B")])
def test_options_in_fields_of_their_own_and_a_counted_answer(tmp_path, first, answer):
    line = {"id": 1, "question": "?", "opa": "x", "opb": "y", "opc": "z", "cop": 2}
    benchmark = load(mapped(write(tmp_path, line), f'options="opa;opb;opc",answer=cop,first={first}'), tmp_path)
    assert benchmark.questions[0].options == {"A": "x", "B": "y", "C": "z"}
    assert benchmark.golds["mine/1"].answer == answer


@pytest.mark.parametrize(("options", "answer", "right"), [(["B", "A", "AB", "O"], "AB", "C"), (["A", "B"], "A", "A")])
def test_an_answer_that_can_be_read_in_one_way_only(tmp_path, options, answer, right):
    line = {"id": 1, "question": "?", "options": options, "answer": answer}
    assert load(write(tmp_path, line), tmp_path).golds["mine/1"].answer == right


def test_a_counted_answer_is_no_text(tmp_path):
    line = {"id": 1, "question": "?", "options": ["B", "A", "2"], "answer": 2}
    assert load(mapped(write(tmp_path, line), "first=1"), tmp_path).golds["mine/1"].answer == "B"


@pytest.mark.parametrize(
    ("data", "kind"), [(b"PAR1\x15\x04", "a Parquet file"), (b"PK\x03\x04\x14", "an archive"), (b"%PDF-1.7\n", "a PDF")]
)
def test_a_file_that_is_no_text_is_named(tmp_path, data, kind):
    (path := tmp_path / "mine.bin").write_bytes(data)
    for form in ("csv", "jsonl"):
        with pytest.raises(UserError, match=f"this is {kind}.*save it as CSV or JSON Lines"):
            load(f"{form}:{path}", tmp_path)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ("question=steam", "line 1: it has no field 'steam' for question. Did you mean 'stem'"),
        ("question=stem,answer=cop,first=5", "the answer 2 is no option"),
        ("qestion=stem", "no parameter 'qestion'. Did you mean 'question'"),
    ],
)
def test_a_wrong_mapping(tmp_path, mapping, said):
    line = {"id": 1, "stem": "?", "options": ["x", "y"], "cop": 2}
    with pytest.raises(UserError, match=said):
        load(mapped(write(tmp_path, line), mapping), tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"id": 1, "question": "?", "options": ["x", "y"], "answer": "C"}, "'C' is not among the options"),
        (
            {"id": 1, "question": "?", "options": ["x", "x"], "answer": "x"},
            r"line 2: the answer 'x' is the text of several options \('A', 'B'\); give the label",
        ),
        (
            {"id": 1, "question": "?", "options": ["B", "A", "AB", "O"], "answer": "A"},
            "line 2: the answer 'A' is the label of 'B' and also the text of the option 'B'",
        ),
        ({"id": 1, "question": "?", "options": ["x", "y"], "answer": 1}, "line 2: the answer is a number, 1.*first=0"),
        ({"id": 1, "question": "?", "A": "x", "B": "y", "answer": "B"}, "line 2: the answer 'B' is the name.*A;B"),
        ({"id": 1, "question": "?", "options": ["x", "y"]}, "line 2: it has no field `answer`"),
        ({"id": 1, "question": "?"}, "line 2: a long-form question needs"),
        ({"id": "ok", "question": "?", "answer": "a"}, "'mine/ok': this id is not unique"),
        ({"question": "?", "answer": "a"}, "line 2: it has no field `id`"),
        ({"id": "a\x1b[2J", "question": "?", "answer": "a"}, "an id has no control characters"),
        ({"id": "a" * 600, "question": "?", "answer": "a"}, "at most 500 characters"),
        ('{"id": 1, "question": "?", "answer": "a", "more": ' + "[" * 100_000, "nested too deeply"),
        ({"id": " ", "question": "?", "answer": "a"}, "line 2: the id is empty"),
        ({"id": 1, "question": "?", "facts": [[]]}, "line 2: each fact needs"),
        ({"id": 1, "question": "?", "answer": "a", "type": "essay"}, "line 2: Invalid enum value 'essay' at type"),
        ('{"id": 1, "question": "?", "ans', "line 2: the line is cut off"),
        ('{"id": 1, "id": 2, "question": "?"}', "line 2: 'id' is twice"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    with pytest.raises(UserError, match=said):
        load(write(tmp_path, {"id": "ok", "question": "?", "answer": "a"}, line), tmp_path)


def test_lines_without_ids_are_numbered_all_or_none(tmp_path):
    lines = [{"question": f"{word}?", "answer": "a"} for word in ("one", "two")]
    assert [one.id for one in load(write(tmp_path, *lines), tmp_path).questions] == ["mine/1", "mine/2"]
    with pytest.raises(UserError, match="line 3: it has an `id`, and the lines before it have none"):
        load(write(tmp_path, *lines, {"id": "3", "question": "three?", "answer": "a"}), tmp_path)


@pytest.mark.parametrize(
    ("line", "reference"),
    [({"golden_answers": ["vitamin C", "ascorbic acid"]}, ""), ({"answer": ["vitamin C", "ascorbic acid"]}, ""),
     ({"gold": ["vitamin C", "ascorbic acid"]}, "[answer=gold]")],
)  # fmt: skip
def test_a_list_of_answers_is_the_wordings_of_one_fact(tmp_path, line, reference):
    found = load(write(tmp_path, {"question": "?", **line}).replace("jsonl:", f"jsonl{reference}:"), tmp_path)
    (gold,) = found.golds.values()
    assert (gold.answer, gold.facts) == ("vitamin C", (("vitamin C", "ascorbic acid"),))
    assert found.questions[0].kind == "long"


@pytest.mark.parametrize(
    ("line", "said"),
    [({"golden_answers": []}, "a long-form question needs"), ({"answer": [" "]}, "each fact needs"),
     ({"answer": ["a"], "options": ["a", "b"]}, "the answer must be one option, not a list")],
)  # fmt: skip
def test_a_list_of_answers_that_is_none_is_refused(tmp_path, line, said):
    with pytest.raises(UserError, match=said):
        load(write(tmp_path, {"question": "?", **line}), tmp_path)


def test_a_damaged_archive(tmp_path):
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00broken")
    with pytest.raises(UserError, match="the archive is damaged"):
        load(f"jsonl:{path}", tmp_path)


def test_lines_that_are_arrays_are_lines_and_an_array_may_hold_arrays(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('[1, "a"]\n[2]\n')
    assert list(read_jsonl(path)) == [("line 1", [1, "a"]), ("line 2", [2])]
    path.write_text('[[1],\n[2, "]\\n["]]')
    assert list(read_jsonl(path)) == [("element 1", [1]), ("element 2", [2, "]\n["])]


def test_an_array_is_read_and_a_number_of_pandas_is_an_id(tmp_path):
    rows = [{"id": 1.0, "question": "Why?", "answer": "so"}, {"id": 2.0, "question": "How?", "answer": "thus"}]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(rows, indent=1))
    assert [question.id for question in load(f"jsonl:{path}", tmp_path).questions] == ["mine.json/1", "mine.json/2"]
    path.write_text(json.dumps([*rows, {"question": 3}]))
    with pytest.raises(UserError, match="element 3: "):
        load(f"jsonl:{path}", tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables_of_spreadsheets_are_questions(tmp_path, encoding):
    path = tmp_path / "mine.csv"
    path.write_text("id;question;answer\n1;Why, then?;Ménière\n", encoding=encoding)
    benchmark = load(f"csv:{path}", tmp_path)
    assert [(item.text, benchmark.golds[item.id].answer) for item in benchmark.questions] == [("Why, then?", "Ménière")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("question,answer\nWhy?,Ménière\n".encode("cp1252"), "byte 22 is not UTF-8 .Windows writes cp1252"),
        (b"question,answer\rWhy?,so\r", "old Macs"),
        (b"question,answer,answer\nWhy?,a,b\n", "the same name, 'answer'"),
        ("question,answer\n".encode("utf-16")[:-1], "mark it as UTF-16, and it is not"),
    ],
)
def test_the_fault_of_a_table_is_named(tmp_path, content, fault):
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(UserError, match=fault):
        load(f"csv:{tmp_path / 'mine.csv'}", tmp_path)
