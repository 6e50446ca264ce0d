"""Long answers: facts, ROUGE-L and matched words at their edges, and the way that an attempt took."""

import numpy as np
import pytest

from ragrounds.errors import UserError
from ragrounds.evals.scorers.facts import FACTS, contains
from ragrounds.evals.scorers.greedy_match import GREEDY_MATCH, TokenVectors, greedy_f1, windows
from ragrounds.evals.scorers.rouge_l import ROUGE_L, rouge_l
from ragrounds.evals.scorers.trajectory import Expected, Trajectory, follows, queries_of, read_expected
from ragrounds.evals.store.store import Store
from ragrounds.records import Call, Called, Entered
from ragrounds.text import words
from ragrounds.tools.cards import NamedEmbedder
from ragrounds.tools.embedders import Encoding
from tests.scorers.making import attempt, gold, question

LONG = question({}, kind="long")


def facts(text, *wordings, status="completed", **metadata):
    asked = question({}, kind="long", metadata=metadata)
    made = FACTS.score(attempt(text, status), asked, gold("", facts=wordings))
    return made.value, made.prediction, made.answer_status, made.reason


def test_facts_by_hand():
    wanted = (("thiamine", "vitamin B1"), ("glucose",), ("rest",))
    assert facts("Vitamin-B1.", *wanted) == (pytest.approx(1 / 3), "1/3", "answered", "missing: glucose; rest")
    assert facts("Glucose, thiamine, rest.", *wanted) == (1.0, "3/3", "answered", "")
    assert facts("Something else.", *wanted) == (0.0, "0/3", "answered", "missing: thiamine; glucose; rest")
    # A refusal is one only where none of the facts is there.
    refused = "I'm sorry, but I can't help with that."
    assert facts(refused, *wanted) == (0.0, "0/3", "refused", "the model declined")
    assert facts(f"{refused} Thiamine.", *wanted)[:3] == (pytest.approx(1 / 3), "1/3", "answered")
    assert facts("", *wanted, status="failed") == (0.0, "0/3", "empty", "empty reply")
    assert facts("Rest.", *wanted, status="not_run") == (None, "1/3", "empty", "not run")
    none = (None, "", "answered", "the question lists no facts as wordings")
    assert facts("Rest.") == none
    assert facts("Rest.", ("rest",), facts="statements") == none
    assert facts("Rest.", ("rest",), facts="wordings") == (1.0, "1/1", "answered", "")


def test_facts_are_for_long_questions_with_wordings():
    assert FACTS.default(LONG)
    assert not FACTS.default(question({}, kind="long", metadata={"facts": "statements"}))
    assert not FACTS.default(question())


@pytest.mark.parametrize(
    ("text", "wordings", "there"),
    [
        ("rest", (" ", "rest"), True),
        ("rest", (" ",), False),
        ("rest", (), False),
        ("unrest", ("rest",), False),
        ("rests", ("rest",), False),
        ("_rest_", ("rest",), True),  # emphasis is no letter
        ("2rest", ("rest",), False),
        ("rest2", ("rest",), False),
        ("x(5)", ("(5)",), True),
        ("x(5)y", ("(5)",), True),
        ("a.b", ("a.b",), True),
        ("axb", ("a.b",), False),
        ("x鿿y", ("鿿",), True),  # the last of its block
        ("part.i.d", ("t.i.d",), False),
        ("t.i.date", ("t.i.d",), False),
        ("他应休息了", ("休息",), True),
        ("β\u2010blocker", ("β blocker",), True),
        ("β\u2212blocker", ("β-blocker",), True),
        ("ＲＥＳＴ", ("rest",), True),
        ("GROß", ("gross",), True),
    ],
)
def test_wordings_as_whole_words(text, wordings, there):
    assert contains(text, wordings) is there


def test_rouge_by_hand():
    # a c of "a b c" and "a c d e": F1 = 2 · 2 / (3 + 4).
    assert rouge_l("a b c", "a c d e") == pytest.approx(4 / 7)
    assert rouge_l("b a", "a b") == 0.5
    assert rouge_l("x", "y") == rouge_l("?", "!") == 0.0
    assert rouge_l("A, a!", "a") == pytest.approx(2 / 3)
    assert words("Vitamin_C's ひらがな漢字") == ["vitamin_c", "s", "ひ", "ら", "が", "な", "漢", "字"]
    assert rouge_l("x " * 4_001, "x " * 4_000) == 1.0  # no more words are compared


def test_a_score_by_wording():
    def brief(text, reference, status="completed"):
        made = ROUGE_L.score(attempt(text, status), LONG, gold(reference))
        return made.scorer, made.value, made.answer_status, made.reason

    assert brief("a b", "b") == ("rouge-l", pytest.approx(2 / 3), "answered", "")
    assert brief("a b", " ") == ("rouge-l", None, "answered", "the question has no reference answer")
    assert brief("a b", "b", "not_run") == ("rouge-l", None, "empty", "not run")
    assert brief("", "b", "failed") == ("rouge-l", 0.0, "empty", "empty reply")


class Letters:
    """Two numbers a text, and what was asked."""

    def __init__(self):
        self.asked = []

    def queries(self, texts):
        self.asked.append(list(texts))
        return np.array([[float(text.count("a")), float(text.count("b"))] for text in texts], np.float32)

    def documents(self, documents):
        raise AssertionError("answers are no documents")


class Short(Letters):
    """Vectors much shorter than 1."""

    def queries(self, texts):
        return super().queries(texts) / 100


class Tokens(Letters):
    """A vector a character, in windows."""

    def tokens(self, texts):
        self.asked.append(list(texts))
        return [
            np.array([[float(c == "a"), float(c == "b") * 2] for c in text if c in "ab"], np.float32) for text in texts
        ]


def test_greedy_matching_by_hand():
    one, other = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.6, 0.8]])
    # Precision (.6 + .8) / 2, recall .8.
    assert greedy_f1(one, other) == pytest.approx(2 * 0.7 * 0.8 / 1.5)
    assert greedy_f1(other, one) == pytest.approx(2 * 0.7 * 0.8 / 1.5)
    assert greedy_f1(one[:0], other) == greedy_f1(other, one[:0]) == 0.0
    assert greedy_f1(one[:1], one[1:]) == 0.0
    assert greedy_f1(one * 1.1, one * 1.1) == 1.0  # rounding cannot carry it above 1
    # What points away counts as nothing alike, not less than nothing.
    assert greedy_f1(np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0], [0.9, 0.1]])) == pytest.approx(
        2 * 0.9 * 0.0 / 0.9, abs=1e-9
    )


def test_vectors_of_words_have_length_one_and_are_kept():
    embedder = Letters()
    vectors = TokenVectors(embedder)
    assert vectors("aab b x b").tolist() == pytest.approx(
        np.array([[2 / 5**0.5, 1 / 5**0.5], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    )
    assert vectors("b aab a").shape == (3, 2)
    assert embedder.asked == [["aab", "b", "x"], ["a"]]
    small = TokenVectors(Short())
    assert small("ab").tolist() == pytest.approx(np.array([[0.5**0.5, 0.5**0.5]]))
    assert vectors("?!").shape == (0, 1)
    assert vectors("b").dtype == vectors("").dtype == np.float32


def test_no_more_than_20000_words_are_kept():
    embedder = Letters()
    vectors = TokenVectors(embedder)
    for start in range(0, 20_000, 4_000):
        vectors(" ".join(f"a{number}" for number in range(start, start + 4_000)))
    vectors("a0 a19999")
    assert len(embedder.asked) == 5  # all 20,000 are there
    assert vectors("a0 b b").shape == (3, 2)  # one more: all are forgotten, and these asked for
    assert embedder.asked[5:] == [["a0", "b"]]
    vectors("a0 b a1")
    assert embedder.asked[6:] == [["a1"]]


def test_tokens_in_their_context():
    embedder = Tokens()
    vectors = TokenVectors(embedder)
    assert vectors("a b. a").tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert vectors(" ").shape == (0, 1)
    assert vectors(" ").dtype == np.float32
    assert embedder.asked == [["a b. a"]]
    assert len(vectors("a" * 900)) == 900
    assert [len(one) for one in embedder.asked[-1]] == [400, 400, 100]


def test_a_scorer_is_opened_with_an_embedder():
    for embedder, tokens in ((Letters(), "words"), (Tokens(), "context")):
        made = GREEDY_MATCH.opened(NamedEmbedder("dense[model=made]", Encoding(model="made"), embedder))
        assert made.name == f"greedy-match[embedder=dense[model=made],tokens={tokens}]"
        score = made.score(attempt("a b"), LONG, gold("b"))
        assert (score.scorer, score.value, score.answer_status) == (made.name, pytest.approx(2 / 3), "answered")
        assert made.score(attempt("a"), LONG, gold(" ")).reason == "the question has no reference answer"
        assert made.score(attempt("a", "not_run"), LONG, gold("a")).reason == "not run"
    with pytest.raises(ValueError, match=r"^greedy-match scores nothing before it is opened with an embedder$"):
        GREEDY_MATCH.score(attempt("a"), LONG, gold("a"))


def test_windows_by_hand():
    assert windows("One. Two! 三。四") == ["One. Two! 三。 四"]
    assert windows("") == windows(" \n ") == []
    first, second = "x" * 199 + ".", "y" * 199
    assert windows(f"{first} {second}") == [f"{first} {second}"]  # 400 with the space between
    assert windows(f"{first} {second}y") == [first, f"{second}y"]
    assert windows("z" * 801) == ["z" * 400, "z" * 400, "z"]
    assert windows("z" * 801 + "; a") == ["z" * 400, "z" * 400, "z; a"]


def step(number, kind, actor):
    made = Call(key=f"k{number}", kind=kind, role="querying", node="n", actor=actor, at=0, seconds=0)
    return Called(step=0, call=made)


EVENTS = (
    Entered(step=0, node="plan", at=0),
    step(1, "search", "bm25[k1=0.9]"),
    step(2, "tool", "sum"),
    step(3, "model", "m:x"),
    step(4, "search", ""),
)


def took(expected, query=lambda call: call.key, status="completed", text="B", events=EVENTS):
    made = Trajectory(expected={"x/1": expected, "*": Expected(nodes=("never",))}, query=query).score(
        attempt(text, status, events=events), question(), gold()
    )
    return made.value, made.answer_status, made.reason


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (Expected(nodes=("plan",), tools=("bm25", "sum", ""), queries=("K1", "k4"), mode="exact"), ""),
        (Expected(nodes=(), mode="exact"), "nodes: plan"),
        (Expected(nodes=("plan", "answer")), "nodes: plan"),
        (Expected(tools=("sum", "bm25")), "tools: bm25, sum, "),
        (Expected(tools=("m",)), "tools: bm25, sum, "),
        (Expected(queries=("k2",)), "queries: k1, k4"),
        (Expected(queries=("k3",)), "queries: k1, k4"),
        (Expected(nodes=("x",), tools=("x",), queries=("x",)), "nodes: plan"),
        (Expected(tools=("x",), queries=("x",)), "tools: bm25, sum, "),
    ],
)
def test_the_first_part_that_differs_is_named(expected, reason):
    assert took(expected) == (float(not reason), "answered", reason)


def test_attempts_without_steps_text_or_expectations():
    assert took(Expected(nodes=("plan",)), events=()) == (0.0, "answered", "nodes: none")
    assert took(Expected(tools=("x",)), events=()) == (0.0, "answered", "tools: none")
    assert took(Expected(queries=("x",)), events=()) == (0.0, "answered", "queries: none")
    assert took(Expected(), text=" ") == (1.0, "empty", "")
    assert took(Expected(), status="not_run") == (None, "answered", "not run")
    some = lambda call: None if call.key == "k1" else "x"  # noqa: E731
    assert took(Expected(queries=("x",)), some) == (0.0, "answered", "queries: some are not in the journal")
    assert took(Expected(), lambda call: None) == (1.0, "answered", "")
    other = Trajectory(expected={"x/2": Expected()}).score(attempt("B", events=EVENTS), question(), gold())
    assert (other.value, other.reason) == (None, "nothing is expected of this question")
    assert Trajectory().query(None) is None
    every = Trajectory(expected={"*": Expected(nodes=("never",))}).score(
        attempt("B", events=(*EVENTS, Entered(step=1, node="end", at=0))), question(), gold()
    )
    assert (every.value, every.prediction, every.reason) == (0.0, "plan → end", "nodes: plan, end")


@pytest.mark.parametrize(
    ("actual", "expected", "modes"),
    [
        ("abc", "abc", "exact in_order any_order unordered subset"),
        ("abc", "ac", "in_order any_order"),
        ("abc", "ca", "any_order"),
        ("abc", "cba", "any_order unordered subset"),
        ("ab", "abc", "subset"),
        ("aab", "ab", "in_order any_order"),
        ("ab", "aab", "subset"),
        ("", "", "exact in_order any_order unordered subset"),
        ("a", "", "in_order any_order"),
        ("ad", "abc", ""),
    ],
)
def test_modes_by_hand(actual, expected, modes):
    every = ("exact", "in_order", "any_order", "unordered", "subset")
    assert [mode for mode in every if follows(list(actual), tuple(expected), mode)] == modes.split()


def test_files_of_expectations_that_cannot_be_used(tmp_path):
    file = tmp_path / "expected.jsonl"
    file.write_text("\n")
    with pytest.raises(UserError, match="the file is empty"):
        read_expected(file)
    file.write_text('{"question": "q"}\n\n{"question": "q"}\n')
    with pytest.raises(UserError, match=r"expected\.jsonl.*line 3: the question 'q' stands twice"):
        read_expected(file)
    file.write_text('{"question": "q", "nodes": [1]}\n')
    with pytest.raises(UserError, match=r"expected\.jsonl.*line 1"):
        read_expected(file)


def test_calls_without_a_key_have_no_query(tmp_path):
    with Store(tmp_path) as store:
        call = Call(key="", kind="search", role="querying", node="s", actor="bm25", at=0, seconds=0)
        assert queries_of(store)(call) is None
