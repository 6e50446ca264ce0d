"""Scorers from outside: asked with care, named by import path, and known by the words that a store keeps."""

import logging
import math

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.scorers import catalogue
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord, StoredScorer
from ragrounds.evals.scorers.catalogue import (
    NO_UNIT,
    described,
    find_scorer,
    score_by,
    scorer_code,
    scorer_name,
    scorers_for,
    scores_by_default,
    tell,
    typed_scorer,
)
from ragrounds.evals.scorers.facts import FACTS
from ragrounds.evals.scorers.strict import STRICT
from ragrounds.evals.scorers.words import copy_words, keep_words, recall_words, unknown_words
from ragrounds.evals.store import schema
from ragrounds.evals.store.row_sums import meta_value, summed_meta
from ragrounds.evals.store.store import Store
from tests.scorers.making import attempt, gold, question


class Told(ScorerRecord, frozen=True, kw_only=True):
    """Gives what it was told to give."""

    name: str = "told"
    summary: str = "what it was told"
    method: str = "told"
    kinds: tuple = ("choice",)
    unit: str = "points"
    direction: str = "lower"
    gives: object = 0.0

    def score(self, attempt, question, gold):
        if isinstance(self.gives, Exception):
            raise self.gives
        if isinstance(self.gives, float | int | None):
            made = self.scored(attempt, self.gives, AnswerRead("answered", "B", "r"), "B")
            return replace(made, question_id="another", epoch=7, scorer="else")
        return self.gives


class Echo(Told, frozen=True, kw_only=True):
    """Gives back what it was asked with."""

    def score(self, attempt, question, gold):
        return self.scored(attempt, 1.0, AnswerRead("answered"), f"{attempt.text} {question.id} {gold.answer}")


class Lacking(ScorerRecord, frozen=True, kw_only=True):
    """No method score."""


class Shy(Told, frozen=True, kw_only=True):
    """Cannot say what it scores."""

    def default(self, question):
        raise KeyError("field")


TOLD = Told()
LACKING = Lacking(name="lacking", summary="s", method="m", kinds=("choice",))


def brief(made):
    return made.question_id, made.epoch, made.scorer, made.value, made.answer_status, made.reason


@pytest.fixture(autouse=True)
def _nobody_named(monkeypatch):
    for name in ("_NAMED", "_PATHS", "_TOLD"):
        monkeypatch.setattr(catalogue, name, {})


@pytest.mark.parametrize(("gives", "value"), [(0.5, 0.5), (1, 1.0), (None, None), (True, 1.0), (-3.0, -3.0)])
def test_a_score_stands_under_the_scorers_name_and_the_attempts_question(gives, value):
    made = score_by(Told(gives=gives), attempt("x"), question(), gold())
    assert brief(made) == ("x/1", 0, "told", value, "answered", "r")
    assert made.prediction == "B"
    assert isinstance(made.value, float | None)
    assert score_by(Echo(), attempt("x"), question(), gold("C")).prediction == "x x/1 C"


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (ZeroDivisionError("by  nought\nat all"), "ZeroDivisionError: by nought at all"),
        (ValueError("x" * 400), "ValueError: xxx"),
        ("1.0", "TypeError: score() gave str, expected a Score"),
        (math.inf, "ValueError: score() gave the value inf"),
        (math.nan, "ValueError: score() gave the value nan"),
    ],
)
def test_what_a_scorer_raises_is_a_missing_score_and_said_once(gives, reason, caplog, monkeypatch):
    monkeypatch.setattr("ragrounds.base.plugins._SAID", set())
    with caplog.at_level(logging.WARNING):
        for text, status in (("x", "answered"), (" ", "empty")):
            made = score_by(Told(gives=gives), attempt(text), question(), gold())
            assert brief(made)[:5] == ("x/1", 0, "told", None, status)
            assert made.reason.startswith(f"the scorer failed: {reason}")  # and where in its code
            assert len(made.reason) <= len("the scorer failed: ") + 300
    (record,) = caplog.records
    assert record.getMessage().startswith(f"The scorer 'told' failed on an answer, whose score is missing: {reason}")


def test_a_scorer_that_cannot_say_what_it_scores_is_left_out(caplog, monkeypatch):
    monkeypatch.setattr("ragrounds.base.plugins._SAID", set())
    with caplog.at_level(logging.WARNING):
        assert scores_by_default(Shy(), question()) is False
    (record,) = caplog.records
    assert record.getMessage().startswith("The scorer 'told' was left out: `default` failed: KeyError: 'field'")
    assert scores_by_default(STRICT, question()) is True
    assert scores_by_default(STRICT, question({}, kind="long")) is False
    assert scores_by_default(TOLD, question()) is True
    assert scores_by_default(TOLD, question({}, kind="long")) is False


def test_a_score_carries_the_code_that_made_it_and_only_those_from_outside_are_asked_with_care(monkeypatch):
    made = score_by(STRICT, attempt("B"), question(), gold("B"))
    assert (made.scorer, made.value, made.code) == ("strict", 1.0, scorer_code(STRICT))
    assert scorer_code(STRICT) == scorer_code(STRICT) != scorer_code(FACTS)
    for name in ("equivalent", "equivalent[k=1]"):
        with pytest.raises(NotImplementedError, match="computes no score"):
            score_by(replace(described("equivalent"), name=name), attempt("x"), question({}, kind="long"), gold("x"))
    failed = score_by(Told(gives=OSError("gone")), attempt("B"), question(), gold("B"))
    assert failed.value is None
    assert failed.reason.startswith("the scorer failed: OSError: gone")
    assert failed.code == scorer_code(TOLD) != ""


def test_a_scorer_named_by_its_path_is_known_by_its_own_name_from_then_on():
    path = f"{__name__}:TOLD"
    assert typed_scorer(path) == path
    assert described("told").unit == NO_UNIT
    assert scorer_name(path) == "told"
    assert typed_scorer(path) == "told"
    assert described("told[k=1]") is TOLD
    assert scorer_name("strict") == "strict"
    assert find_scorer(path) is TOLD
    assert "told" not in [one.name for one in scorers_for(question())]
    with pytest.raises(UserError, match=r"the scorer 'lacking' has no method score\(attempt, question, gold\)\."):
        find_scorer(f"{__name__}:LACKING")


def test_words_are_kept_and_recalled_whole(tmp_path):
    path = f"{__name__}:TOLD"
    scorer_name(path)
    with Store(tmp_path) as store:
        keep_words(store, ["told", "strict", "facts", "nobody's", "facts[k=1]"])
        with store.engine.connect() as connection:
            rows = dict(connection.execute(sa.select(schema.meta.c.key, schema.meta.c.value)).all())
        (key,) = [key for key in rows if key.startswith("scorer:")]
        assert key == "scorer:told"
        kept = msgspec.json.decode(meta_value(key, rows[key]) or "", type=StoredScorer)
        catalogue._NAMED.clear()
        assert described("told").unit == NO_UNIT
        recall_words(store)
    found = described("told")
    assert found == kept
    assert (found.name, found.summary, found.method, found.kinds) == ("told", "what it was told", "told", ("choice",))
    assert (found.unit, found.direction, found.beside) == ("points", "lower", True)
    assert (found.ratio, found.needs_judge, found.usual) == (False, False, False)
    assert (found.by_card, found.on_request) == (False, True)
    assert not found.suits(question())
    assert not found.default(question())


def test_a_headline_from_outside_is_none_where_only_its_words_are_here(tmp_path):
    with Store(tmp_path) as store:
        tell(Told(name="usual", usual=True, by_card=True))
        keep_words(store, ["usual"])
        catalogue._TOLD.clear()
        recall_words(store)
        assert (described("usual").usual, described("usual").by_card) == (False, False)
        tell(Told(name="usual", unit="again"))
        keep_words(store, iter(["usual"]))  # what was kept is replaced
        recall_words(store)
        assert described("usual").unit == "again"
        keep_words(store, [])
        tell(Told(name="needy", needs="a judge", summary="y" * 201))
        keep_words(store, ["needy"])
        catalogue._TOLD.clear()
        recall_words(store)
        assert described("needy").needs == ""  # what it would need is of no use without its code
        assert described("needy").summary.startswith("y" * 200 + "…")


def test_words_that_cannot_be_read_are_as_good_as_none(tmp_path):
    with Store(tmp_path) as store:
        right = msgspec.json.encode(StoredScorer(name="told", summary="s", method="m", kinds=("choice",))).decode()
        with store.engine.begin() as connection:
            for key, value in (("scorer:a", "{"), ("scorer:b", '{"name": 1}'), ("scorer:c", right), ("x:told", right)):
                connection.execute(sa.insert(schema.meta).values(summed_meta(key, value)))
        recall_words(store)
        assert described("told").unit == NO_UNIT  # under another name, or no scorer's
        assert described("c").unit == NO_UNIT
        with store.engine.begin() as connection:
            connection.execute(sa.insert(schema.meta).values(summed_meta("scorer:told", right)))
        recall_words(store)
        assert described("told").unit == "percent"


def test_what_nobody_knows_is_remarked():
    (remark,) = unknown_words(["strict", "nobody's", "facts[k=1]"])
    assert remark == (
        'The scorer "nobody\'s" is not installed, and its unit is unknown: values are shown as they are, higher as '
        "better. Install its package, or give --scorer package.module:NAME."
    )
    assert unknown_words([]) == []


def test_words_travel_to_another_store_that_keeps_its_own(tmp_path):
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        for name in ("told", "other"):
            tell(Told(name=name, summary=f"a\n{'x' * 300}", unit="points"))
        keep_words(one, ["told", "other"])
        tell(Told(name="told", unit="mine"))
        keep_words(two, ["told"])
        copy_words(one.engine, two.engine)
        catalogue._TOLD.clear()
        recall_words(two)
        assert (described("told").unit, described("other").unit) == ("mine", "points")
        assert described("other").summary.startswith(f"a {'x' * 190}")  # in one line
        assert "more characters]" in described("other").summary
        catalogue._TOLD.clear()
        recall_words(one)
        assert (described("told").unit, described("other").unit) == ("points", "points")
    with Store(tmp_path / "three") as three, Store(tmp_path / "four") as four:
        copy_words(three.engine, four.engine)
        recall_words(four)
