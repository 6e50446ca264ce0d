"""Scorer ``rubric``: HealthBench's judge (Arora et al. 2025, arXiv 2505.08775). Which criteria does the answer meet?

A score is the points of the criteria that are met over the positive points that there are: it may be below 0, and the
mean over questions is clipped to 0 to 1. Criteria are put to the judge one by one, as published, each last in the
prompt: a server that keeps prefixes reads conversation and answer once. They come with the questions (``healthbench``),
or from a TOML file of the user's, whose name and digest are in the name of its scorer, ``rubric[NAME-DIGEST]``: scores
by two rubrics never stand in one column. A prediction holds a line for each criterion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ragrounds.base.files import broken, convert, read_text
from ragrounds.base.records import Attempt, Gold, Question, Score, blank
from ragrounds.base.text import parse_toml
from ragrounds.evals.benchmarks.benchmark import RUBRIC
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, LabelMethod, Said, VerdictForm, fenced

MET, NOT_MET, MISSING, UNASKED = "met", "not met", "?", "no answer"
_FENCE = re.compile(r"^```json\s*|\s*```$")
_KEY = "criteria_met"
_UNSURE = "judge: no verdict on"
_LINE = re.compile(r"^(met|not met|\?|no answer) \| ([+-]\d+(?:\.\d+)?(?:e[+-]\d+)?) \| ([^|\n]*) \| (.+)$", re.M)


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion of a rubric."""

    text: Annotated[str, Meta(pattern=r"\S")]
    points: Annotated[float, Meta(ge=-1e6, le=1e6)] = 1.0
    tags: tuple[Annotated[str, Meta(pattern=r"^[^\n|,]*\w[^\n|,]*\Z")], ...] = ()
    """Such as ``axis:accuracy``: tables have a row for each."""
    questions: tuple[str, ...] = ()
    """Ids of the questions that it is for; empty: all."""


class JudgedCriterion(Criterion, frozen=True):
    """A criterion as a score holds it, with one of the four verdicts above."""

    verdict: str = UNASKED


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,40}\Z")]
    criterion: Annotated[tuple[Criterion, ...], Meta(min_length=1)]


class CriterionForm(VerdictForm, frozen=True):
    """The reply that HealthBench asks for, read by its authors' rules: JSON alone, in a fence or not, whose
    ``criteria_met`` is true or false. Where theirs asks for ever, what is not this is no verdict."""

    axes: tuple[str, ...] = (_KEY,)
    values: tuple[str, ...] = (MET, NOT_MET)

    @property
    def example(self) -> str:
        """The form of the object, for the prompt."""
        return f'{{"explanation": "…", "{_KEY}": true or false}}'

    def strict(self, text: str) -> str:
        """The verdict of a reply; empty: there is none."""
        try:
            found = json.loads(_FENCE.sub("", text.strip()))
        except (ValueError, RecursionError):
            return ""
        met = found.get(_KEY) if isinstance(found, dict) else None
        return (MET if met else NOT_MET) if isinstance(met, bool) else ""


SCORER = JudgedScorer(
    name="rubric",
    judging="rubric",
    clipped=True,
    summary="points of the rubric's criteria that the answer meets, of the positive ones, by the judge",
    method="the points of a rubric's criteria that an answer meets over its positive points (HealthBench), by a judge",
)


class Rubrics(LabelMethod, frozen=True, kw_only=True):
    """Judges an answer criterion by criterion; its score is missing where the verdict on one of them is."""

    name: str = "rubric"
    scorers: tuple[JudgedScorer, ...] = (SCORER,)
    labels: tuple[str, ...] = (MET, NOT_MET)
    needs: str = "a rubric with positive points; --rubric FILE.toml gives one"
    prompts: tuple[str, ...] = ("judge/criterion",)
    right_texts: bool = False  # a criterion's text is no answer
    own: tuple[Criterion, ...] | None = None
    """The user's criteria; ``None``: the questions' own."""

    def by_rubric(self, file: Path) -> Rubrics:
        """Judging by the criteria of a TOML file: a `name`, and tables ``[[criterion]]``."""
        try:
            read = convert(parse_toml(read_text(file)), _File, file, "")
        except TOMLDecodeError as error:
            raise broken(file, f"it is not TOML: {str(error)[:200]}") from None
        own = tuple(replace(each, text=" ".join(each.text.split())) for each in read.criterion)
        if not any(each.points > 0 for each in own):
            raise broken(file, "no criterion has points above 0, by which a score is defined")
        name = f"{SCORER.name}[{read.name}-{sha256(msgspec.json.encode(own)).hexdigest()[:8]}]"
        return replace(self.behind(name, tuple), own=own, needs=f"a criterion of {file} with points above 0")

    def behind(self, scorer: str, scores: Callable[[], Iterable[Score]]) -> Rubrics:
        """A user's criteria are those in the predictions, question by question."""
        if scorer == SCORER.name:
            return self
        held = {score.question_id: judged_criteria(score) for score in scores() if score.scorer == scorer}
        own = (Criterion(one.text, one.points, one.tags, (id,)) for id, each in held.items() for one in each)
        return replace(self, name=scorer, scorers=(replace(SCORER, name=scorer, judging=scorer),), own=tuple(own))

    def criteria(self, gold: Gold) -> tuple[Criterion, ...]:
        """The criteria of a question."""
        if self.own is None:
            return tuple(Criterion(text, float("".join(rest[:1]) or 1), tuple(rest[1:])) for text, *rest in gold.facts)
        ids = {gold.question_id, gold.question_id.rpartition("/")[2]}
        return tuple(each for each in self.own if not each.questions or not ids.isdisjoint(each.questions))

    def fits(self, question: Question, gold: Gold) -> bool:
        """Long questions with a positive criterion: without one no score is defined."""
        known = self.own is not None or question.metadata.get("facts") == RUBRIC
        return known and question.kind == "long" and any(each.points > 0 for each in self.criteria(gold))

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """An attempt without a text meets nothing, the negative criteria neither, and costs nothing."""
        said = [(UNASKED, "") for _ in self.criteria(gold)]
        return self.scores(attempt, gold, said) if attempt.status == "not_run" or blank(attempt.text) else ()

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """A criterion in each."""
        texts = {"question": fenced(question.text), "answer": fenced(attempt.text)}
        (prompt,), form = self.prompts, CriterionForm()
        return tuple(
            JudgeQuestion(prompt=prompt, texts={**texts, "criterion": fenced(text)}, form=form, subjects=(text,))
            for text in self.items(gold).values()
        )

    def scores(self, attempt: Attempt, gold: Gold, said: Sequence[Said]) -> tuple[Score, ...]:
        """Met points over positive points; none where there are no positive points, or a verdict is missing."""
        judged = [
            JudgedCriterion(" ".join(each.text.split()), each.points, each.tags, verdict=label or MISSING)
            for each, (label, _) in zip(self.criteria(gold), said, strict=True)
        ]
        missing, value = sum(each.verdict == MISSING for each in judged), points_share(judged)
        reason = "the rubric has no positive points" if value is None else ""
        if missing or attempt.status == "not_run":
            value, reason = None, f"{_UNSURE} {missing} of {len(judged)} criteria" if missing else ""
        cells = [(each.verdict, f"{each.points:+.10g}", ", ".join(each.tags), each.text) for each in judged]
        prediction = "\n".join(("rubric", *map(" | ".join, cells)))
        return (self.scorers[0].scored(attempt, value, read_long(attempt), prediction, reason),)

    def items(self, gold: Gold) -> dict[str, str]:
        """The question with ``#1``, ``#2``, … → the criteria, in the rubric's order."""
        return {f"{gold.question_id}#{number}": each.text for number, each in enumerate(self.criteria(gold), 1)}

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """The verdict on each criterion; nothing where nothing was asked."""
        return {
            f"{score.question_id}#{number}": None if each.verdict == MISSING else each.verdict
            for number, each in enumerate(judged_criteria(score), 1)
            if each.verdict != UNASKED
        }


def judged_criteria(score: Score) -> tuple[JudgedCriterion, ...]:
    """The criteria that a score holds, in the rubric's order."""
    return tuple(
        JudgedCriterion(text, float(points), tuple(filter(None, tags.split(", "))), verdict=verdict)
        for verdict, points, tags, text in _LINE.findall(score.prediction)
    )


def points_share(judged: Collection[JudgedCriterion]) -> float | None:
    """The points of what is met over the positive points, not clipped; ``None``: there are no positive points."""
    positive = sum(each.points for each in judged if each.points > 0)
    return sum(each.points for each in judged if each.verdict == MET) / positive if positive else None


def part_scores(score: Score, tags: Iterable[str] = ()) -> dict[str, float | None]:
    """What a score is by parts: the question's own `tags` have its value, a criterion's tag that of the criteria that
    have it, where one of them is positive. A criterion's tag goes before a question's of the same name. Without a value
    for another reason than a missing verdict, a score has none in any part."""
    made: dict[str, float | None] = dict.fromkeys(tags, score.value)
    judged, known = judged_criteria(score), score.value is not None or score.reason.startswith(_UNSURE)
    for tag in dict.fromkeys(tag for each in judged for tag in each.tags):
        inside = [each for each in judged if tag in each.tags]
        if (value := points_share(inside)) is not None:
            made[tag] = None if not known or any(each.verdict == MISSING for each in inside) else value
    return made


RUBRIC_METHOD = Rubrics()
