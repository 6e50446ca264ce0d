"""Check whether a model's answers depend on how many calls its server processes at once.

The same questions are asked with one attempt in flight and with more. In a larger batch a server adds numbers in
another order, so that answers may change at temperature 0, too. No interval over questions contains such a shift.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from statistics import fmean

from msgspec import Struct

from ragrounds.api.run import run
from ragrounds.api.workspace import chosen_settings, open_store
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import load
from ragrounds.ui.text import number_of

_QUESTIONS, _AGENT, _SCORER = 20, "direct", "robust"
_MAX_TOKENS = 256
"""Longest answer, if the model's text does not set it."""


class SampleAnswers(Struct, frozen=True, kw_only=True):
    """Answers to questions of the sample, made with a number of attempts in flight."""

    in_flight: int
    texts: Mapping[str, str]
    """Question id → text; attempts that failed are not among them."""
    scores: Mapping[str, float]


class ConcurrencyCheck(Struct, frozen=True, kw_only=True):
    """Answers of a model with different numbers of attempts in flight; the first is 1."""

    answers: tuple[SampleAnswers, ...]

    def lines(self) -> Iterator[str]:
        """Yield the accuracy at each number, and how many answers differ from those of single attempts."""
        single = self.answers[0]
        yield f"  {number_of(len(single.texts), 'question')} of the sample by {_AGENT}, attempts in flight:"
        for answers in self.answers:
            accuracy = f"{100 * fmean(answers.scores.values()):.1f} % {_SCORER}" if answers.scores else "no answer"
            line = f"    {answers.in_flight:4}: {accuracy}"
            if answers is not single:
                compared = single.texts.keys() & answers.texts.keys()
                texts = sum(single.texts[id] != answers.texts[id] for id in compared)
                scores = sum(single.scores.get(id) != answers.scores.get(id) for id in compared)
                changed = f"{number_of(texts, 'text')} and {number_of(scores, 'score')}"
                line += f"; of {len(compared)}, {changed} differ from those at 1"
            yield line
        yield "  equal runs may differ, too: `ragrounds run --repeat N` measures by how much"


def check_concurrency(
    model: str, base_url: str | None, alias: str | None, in_flight: int, settings: Settings
) -> ConcurrencyCheck:
    """Ask the sample with 1, a quarter of `in_flight`, and `in_flight` attempts in flight, as :func:`answer_sample`."""
    numbers = sorted({1, max(1, in_flight // 4), in_flight})
    return ConcurrencyCheck(
        answers=tuple(answer_sample(model, number, settings, base_url=base_url, alias=alias) for number in numbers)
    )


def answer_sample(
    model: str,
    in_flight: int,
    settings: Settings,
    *,
    base_url: str | None = None,
    alias: str | None = None,
    count: int = _QUESTIONS,
) -> SampleAnswers:
    """Ask the first multiple-choice questions of the sample; no recorded call is used, and nothing is stored.

    Args:
        model: text of the model; its own parameters take precedence over temperature 0 and 256 tokens an answer.
        in_flight: number of attempts in flight.
        settings: settings of the user, with the default server.
        base_url, alias: server of the model.
        count: number of questions.

    Raises:
        UserError, StopRun: as :func:`ragrounds.run`.
    """
    with tempfile.TemporaryDirectory(prefix="ragrounds-") as home:
        separate = chosen_settings(settings.model_copy(update={"store": None}), home)
        questions = [question.id for question in load("sample", separate.home).questions if question.options][:count]
        result = run(
            agents=[_AGENT], model=model, base_url=base_url or (), alias=alias, questions=questions, workers=1,
            temperature=0.0, max_answer_tokens=_MAX_TOKENS, concurrency=in_flight, repeat=0, confirmed=True,
            progress=False, settings=separate,
        )  # fmt: skip
        with open_store(separate) as store:
            attempts = store.attempts(result.runs[0])
            texts = {attempt.question_id: attempt.text for attempt in attempts if attempt.status == "completed"}
            scores = {score.question_id: score.value for score in store.scores(result.runs[0], _SCORER)}
    return SampleAnswers(
        in_flight=in_flight,
        texts=texts,
        scores={id: value for id in texts if (value := scores.get(id)) is not None},
    )
