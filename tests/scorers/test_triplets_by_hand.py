"""Triplets counted on paper: forms of an answer at their edges, counts."""

import json
import time

import pytest

from ragrounds.base.records import Score
from ragrounds.evals.scorers.triplets import (
    MOST_TRIPLETS,
    TRIPLETS,
    TripletCounts,
    compare,
    counts,
    parse,
)
from tests.rows import each_row
from tests.scorers.making import attempt, gold, question

ASKED = question({}, kind="extraction")
ONE, TWO = ("a", "r", "b"), ("c", "r", "d")


def listed(*triplets):
    return json.dumps([list(triplet) for triplet in triplets])


def test_counts_and_their_figures():
    assert TripletCounts(3, 2, 4).f1 == 6 / 12
    assert TripletCounts().f1 == 1.0


def test_a_score_gives_the_parts_of_the_micro_figure():
    scores = [
        Score(question_id="q", epoch=0, scorer="triplets", value=1.0, answer_status="answered", prediction=prediction)
        for prediction in ("1/0/0", "0/2/10", "x")
    ]
    assert [counts(one) for one in scores[:2]] == [TripletCounts(1, 0, 0), TripletCounts(0, 2, 10)]
    assert [TRIPLETS.parts(one) for one in scores[:2]] == [(2.0, 2.0), (0.0, 12.0)]
    with pytest.raises(ValueError, match="has no counts"):
        counts(scores[2])


@each_row(
    ("text", "found"),
    [
        ("", None),
        ("[", None),
        ("nothing", None),
        ("[]", []),
        ("[1, 2]", None),
        ('["a", "r"]', None),
        ('["a", "r", "b"]', [ONE]),
        ('["a", "r", "b", "x"]', None),
        ('Thinking [1] of it…\n```json\n[["a", "r", "b"]]\n```', [ONE]),
        ('{"triplets": [{"subject": "a", "predicate": "r", "object": "b"}]}', [ONE]),
        ("- a | r | b", [ONE]),
        ('["a", "r", 1]', None),
        ('[["a", "r", "b"], ["c", "r"], 5, {"head": "c"}]', [ONE]),
        ('[["a", "r", "b", "x"], ["a", 1, "b"]]', None),
        ('{"head": "a"}', None),
        ('[{"head": "a", "relation": "r", "tail": 1, "object": "b"}]', [ONE]),
        ('[{"entity1": "a", "type": "r", "entity2": "b"}, {"h": "c", "r": "r", "t": "d"}]', [ONE, TWO]),
        ('[{"主体": "a", "关系": "r", "客体": "b"}, {"头实体": "c", "predicate": "r", "尾实体": "d"}]', [ONE, TWO]),
        # The outermost list that ends where the last one does.
        ('[["a", "r", "b"]] and then [["c", "r", "d"]]', [TWO]),
        ('[["a", "r", "b"], ["c", "r", "d"]]', [ONE, TWO]),
        ('[["a", "r", "b"]] [not JSON', [ONE]),
        ('[["a", "r", "b"]] see [1]', [ONE]),
        # A triplet a line, in brackets or between bars.
        ("(a, r, b)\n- (c；r；d).", [ONE, TWO]),
        ("1. <a, r, b>\n* （c，r，d）", [ONE, TWO]),
        ("| a | r | b |\nc|r|d", [ONE, TWO]),
        ("text\n( a , r , b )\ntext", [ONE]),
        ("(a, r, b), (c, r, d)", [ONE, TWO]),
        ("（a，r，b）、（c，r，d）。", [ONE, TWO]),
        ("As (a, r, b) says", None),
        # Cut off, or without a list around them.
        ('[["a", "r", "b"], ["c", "r", "d"], ["e", "r', [ONE, TWO]),
        ('[{"h": "a", "r": "r", "t": "b"}, {"h": "c", "r": "r", "t": "d"}, {"h"', [ONE, TWO]),
        ('["a", "r", "b"]\n["c", "r", "d"]', [ONE, TWO]),
        ('["a", "r", "b"] and then ["c", "r", "d"]', [TWO]),
        # Full-width punctuation.
        ("［［“a”，“r”，“b”］，［“c”，“r”，“d”］］", [ONE, TWO]),
        ("答案：【【“a”，“r”，“b”】】", [ONE]),
        ("(a, r)", None),
        ("a, r, b", None),
    ],
)
def test_forms(text, found):
    assert parse(text) == found


def test_200_brackets_are_tried_from_either_end():
    for before, after in ((0, 200), (0, 900), (198, 900), (900, 0), (900, 198), (199, 199)):
        assert parse("[" * before + "x" + listed(ONE) + "[" * after) == [ONE]
    # Further in, no list is found, but its triplet is.
    assert parse("[" * 200 + "x" + listed(ONE) + "[" * 200) == [ONE]


def test_a_long_list_is_read_whole_also_behind_some_brackets():
    many = [("a", "r", str(number)) for number in range(250)]
    assert parse("As [1] and [2] say: " + listed(*many)) == many
    assert parse(listed(ONE) + listed(*many)) == many


def test_230_triplets_are_230_in_every_form():
    many = [("a", "r", str(number)) for number in range(230)]
    forms = [
        listed(*many),
        json.dumps([list(one) for one in many], indent=2),
        listed(*many)[:-1],
        "\n".join(json.dumps(list(one)) for one in many),
        json.dumps([{"head": one, "relation": kind, "tail": other} for one, kind, other in many]),
        json.dumps([{"head": one, "relation": kind, "tail": other} for one, kind, other in many])[:-1],
        ", ".join(f"({one}, {kind}, {other})" for one, kind, other in many),
        "\n".join(f"{place}. ({one}，{kind}，{other})" for place, (one, kind, other) in enumerate(many)),
        "[1] [2] " * 300 + listed(*many),
        listed(*many) + " [1]" * 300,
    ]
    assert [len(parse(form) or ()) for form in forms] == [230] * len(forms)


@pytest.mark.parametrize(
    "part", ["[", "<", "{", '["', '{"', '["a",', '("a",', "<a,", "(a,b,c", '["a","b","c"],', "［“", "【a，b，c】x"]
)
def test_a_hostile_answer_is_read_in_two_seconds(part):
    before = time.process_time()
    parse(part * (200_000 // len(part)))
    assert time.process_time() - before < 2


def test_5000_triplets_are_taken_and_the_score_says_where_there_are_more():
    many = [("a", "r", str(number)) for number in range(MOST_TRIPLETS + 1)]
    assert parse(listed(*many)) == many[:5_000]
    lines = "\n".join(f"({one}, {relation}, {other})" for one, relation, other in many)
    assert parse(lines) == many[:5_000]
    assert TRIPLETS.score(attempt(lines), ASKED, gold(listed(ONE))).reason == "only the first 5,000 triplets were read"
    assert TRIPLETS.score(attempt(listed(*many[:230])), ASKED, gold(listed(*many[:230]))).value == 1.0


@pytest.mark.parametrize(
    ("found", "wanted", "symmetric", "expected"),
    [
        ([ONE], [ONE], False, (1, 0, 0)),
        ([ONE, ONE], [ONE], False, (1, 0, 0)),
        ([ONE], [TWO, TWO], False, (0, 1, 1)),
        ([("A ", "R", " b")], [ONE], False, (1, 0, 0)),
        ([("ａ", "r", "b")], [ONE], False, (1, 0, 0)),
        ([("a  x", "r", "b")], [("a x", "r", "b")], False, (1, 0, 0)),
        ([("b", "r", "a")], [ONE], False, (0, 1, 1)),
        ([("b", "r", "a")], [ONE], True, (1, 0, 0)),
        ([ONE], [("b", "r", "a")], True, (1, 0, 0)),
        ([ONE, ("b", "r", "a")], [ONE], True, (1, 0, 0)),
        ([("r", "a", "b")], [ONE], True, (0, 1, 1)),
        ([], [ONE, TWO], False, (0, 0, 2)),
        ([ONE, TWO], [], False, (0, 2, 0)),
    ],
)
def test_strict_counts(found, wanted, symmetric, expected):
    assert compare(found, wanted, symmetric=symmetric) == TripletCounts(*expected)


@pytest.mark.parametrize(
    ("text", "status", "wanted", "value", "prediction", "read", "reason"),
    [
        (listed(ONE, TWO), "completed", listed(ONE), 2 / 3, "1/1/0", "answered", ""),
        ("[]", "completed", "[]", 1.0, "0/0/0", "answered", ""),
        ("none", "completed", "[]", 0.0, "0/0/0", "abstained", "no option was chosen"),
        ("some do", "completed", listed(ONE), 0.0, "0/0/1", "unreadable", "no option can be read from the answer"),
        ("", "failed", listed(ONE, TWO), 0.0, "0/0/2", "empty", "empty reply"),
        ("", "failed", "[]", 0.0, "0/0/0", "empty", "empty reply"),
        ("some do", "completed", "[]", 0.0, "0/0/0", "unreadable", "no option can be read from the answer"),
        (listed(ONE), "not_run", listed(ONE), None, "0/0/1", "empty", "not run"),
        (listed(ONE), "completed", "", 0.0, "0/1/0", "answered", ""),
    ],
)
def test_a_score(text, status, wanted, value, prediction, read, reason):
    made = TRIPLETS.score(attempt(text, status), ASKED, gold(wanted))
    assert (made.value, made.prediction.partition(" ")[0], made.answer_status, made.reason) == (
        value and pytest.approx(value), prediction, read, reason,
    )  # fmt: skip


@pytest.mark.parametrize(("said", "prediction"), [("true", "1/0/0"), ("false", "0/1/1"), ("", "0/1/1")])
def test_only_relations_that_are_said_to_be_symmetric_are(said, prediction):
    asked = question({}, kind="extraction", metadata={"symmetric": said} if said else {})
    made = TRIPLETS.score(attempt(listed(("b", "r", "a"))), asked, gold(listed(ONE)))
    assert made.prediction.partition(" ")[0] == prediction
