"""What is said before figures: a reading that turns the order round, no language model, a scorer's default letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ragrounds.evals.compare.abstract import abstract
from ragrounds.evals.compare.comparison import compare, no_model
from ragrounds.evals.store.store import Store
from ragrounds.records import Score
from ragrounds.ui.comparison_warnings import limitation_sentences, warning_lines
from ragrounds.ui.comparison_words import conclusion_sentence, verdict_lines
from tests.compare.making import add_run, questions

COUNT = 12


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


def _rescored(store: Store, id: str, scorer: str, rights: int, unread: int) -> None:
    """Scores of a run under another scorer: the first `rights` are right, the first `unread` cannot be read."""
    run = store.run(id)
    asked = store.questions(run)[0]
    made = [
        Score(
            question_id=one.id, epoch=0, scorer=scorer, value=float(place < rights),
            answer_status="unreadable" if place < unread else "answered", prediction="A" if place < unread else "B",
        )
        for place, one in enumerate(asked)
    ]  # fmt: skip
    store.add_scores(run, made)


def _two(store: Store) -> list[str]:
    for id, mirage, unread, robust in (("mine", 8, 6, 0), ("other", 4, 0, 5)):
        add_run(store, id, questions(COUNT), [1] * COUNT, id=id)
        _rescored(store, id, "mirage", mirage, unread)
        _rescored(store, id, "robust", robust, 0)
    return ["mine", "other"]


def test_the_first_line_says_that_a_careful_reading_turns_the_order_round(store: Store) -> None:
    runs = [store.run(id) for id in _two(store)]
    made = compare(store, runs, scorers=["mirage", "robust"])
    names = {run.id: run.agent for run in runs}
    line = next(verdict_lines(made, ["mirage"], {"mine": "1", "other": "2"}, names))
    assert line.startswith("mirage: #1 mine has the best figure, 66.67;")
    assert line.endswith(
        ". But by robust the order is the reverse (0.00, 41.67): 6 of 12 answers of #1 are unreadable."
    )
    (found,) = abstract(store, runs, made, ["mirage"]).findings
    assert conclusion_sentence(found, names).endswith(
        "But by robust the order is the reverse (0.00, 41.67): 6 of 12 answers of mine are unreadable."
    )
    (alike,) = abstract(store, runs, made, ["robust"]).findings
    assert alike.turned is None


def test_an_order_that_stays_is_not_spoken_of(store: Store) -> None:
    runs = [store.run(id) for id in _two(store)]
    _rescored(store, "mine", "robust", 9, 0)
    made = compare(store, runs, scorers=["mirage", "robust"])
    assert abstract(store, runs, made, ["mirage"]).findings[0].turned is None


def test_a_limitation_follows_the_scorer(store: Store) -> None:
    runs = [store.run(id) for id in _two(store)]
    made, names = compare(store, runs, scorers=["mirage", "robust"]), {run.id: run.agent for run in runs}

    def said(scorer: str) -> str:
        return " ".join(limitation_sentences(store, runs, made, [scorer], names))

    assert "mirage can read no choice; it counts them as A, which is right wherever A is" in said("mirage")
    assert "Of 12 attempts each: mine 6." in said("mirage")
    assert "not right" not in said("mirage")
    _rescored(store, "mine", "robust", 0, 6)
    made = compare(store, runs, scorers=["mirage", "robust"])
    assert "robust can read no choice; they are not right. Of 12 attempts each: mine 6." in said("robust")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("baseline:extractive", "extractive"),
        ("openai:stand-in[base_url=http://127.0.0.1:1/v1]", "stand-in"),
        ("openai:any[alias=stand-in,temperature=0]", "stand-in"),
        ("openai:gpt-4o-mini", ""),
    ],
)
def test_what_is_no_language_model_is_said(store: Store, model: str, kind: str) -> None:
    run = add_run(store, "one", questions(COUNT), [1] * COUNT, id="one")
    run = msgspec.structs.replace(run, identity={**run.identity, "models": {"model": model}})
    assert no_model(run) == kind


def test_a_server_that_names_itself_the_stand_in_is_known(store: Store) -> None:
    run = add_run(store, "one", questions(COUNT), [1] * COUNT, id="one")
    told = {"openai:any http://127.0.0.1:1/v1": {"id": "stand-in", "owned_by": "ragrounds"}}
    assert no_model(msgspec.structs.replace(run, servers=told)) == "stand-in"


def test_cautions_name_the_runs_where_others_asked_a_model(store: Store) -> None:
    runs = [add_run(store, id, questions(COUNT), [1] * COUNT, id=id) for id in ("one", "two")]
    made, names = compare(store, runs), {run.id: run.agent for run in runs}
    assert not list(warning_lines(made, (), names))
    first, second = made.rows
    made = msgspec.structs.replace(made, rows=(msgspec.structs.replace(first, no_model="extractive"), second))
    (line,) = warning_lines(made, (), names)
    assert line.startswith("The answers of one come from a built-in extractive baseline, not from a language model:")
