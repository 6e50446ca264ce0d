"""Scorer ``rubric``: HealthBench's judge (Arora et al. 2025, arXiv 2505.08775), which decides which criteria the answer
meets.

A score is the points of the criteria that are met over the available positive points. It may be below 0, and the mean
over questions is clipped to 0 to 1. The judge is asked about the criteria one by one, as published. The criterion comes
last in the prompt, so that a server that caches prefixes reads conversation and answer only once. Criteria come with
the questions (``healthbench``), or from a user's TOML file, whose name and digest are in the name of its scorer,
``rubric[NAME-DIGEST]``: scores by two rubrics are never in one column. A prediction holds a line for each criterion.
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
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, LabelMethod, Said, VerdictForm, fenced

MET, NOT_MET, MISSING, UNASKED = "met", "not met", "?", "no answer"
_FENCE = re.compile(r"^```json\s*|\s*```$")
_KEY = "criteria_met"
_UNSURE = "judge: no verdict on"
_LINE = re.compile(r"^(met|not met|\?|no answer) \| ([+-]\d+(?:\.\d+)?(?:e[+-]\d+)?) \| ([^|\n]*) \| (.+)$", re.M)


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """Criterion of a rubric."""

    text: Annotated[str, Meta(pattern=r"\S")]
    points: Annotated[float, Meta(ge=-1e6, le=1e6)] = 1.0
    tags: tuple[Annotated[str, Meta(pattern=r"^[^\n|,]*\w[^\n|,]*\Z")], ...] = ()
    """Tags such as ``axis:accuracy``; tables have a row for each tag."""
    questions: tuple[str, ...] = ()
    """Ids of the questions that it applies to; empty for all."""


class JudgedCriterion(Criterion, frozen=True):
    """Criterion as a score holds it, with one of the four verdicts above."""

    verdict: str = UNASKED


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,40}\Z")]
    criterion: Annotated[tuple[Criterion, ...], Meta(min_length=1)]


class CriterionForm(VerdictForm, frozen=True):
    """Reply that HealthBench asks for, read by its authors' rules: JSON alone, in a fence or not, whose
    ``criteria_met`` is true or false.

    The authors' program asks again without limit until the reply has this form. Here any other reply is no verdict.
    """

    axes: tuple[str, ...] = (_KEY,)
    values: tuple[str, ...] = (MET, NOT_MET)

    @property
    def example(self) -> str:
        """Form of the object, for the prompt."""
        return f'{{"explanation": "…", "{_KEY}": true or false}}'

    def strict(self, text: str) -> str:
        """Return the verdict of a reply; empty if it has none."""
        try:
            parsed = json.loads(_FENCE.sub("", text.strip()))
        except (ValueError, RecursionError):
            return ""
        is_met = parsed.get(_KEY) if isinstance(parsed, dict) else None
        return (MET if is_met else NOT_MET) if isinstance(is_met, bool) else ""


SCORER = JudgedScorer(
    name="rubric",
    judging="rubric",
    clipped=True,
    summary="points of the criteria met, of the positive ones",
    method="the points of a rubric's criteria that an answer meets over its positive points (HealthBench), by a judge",
)


class Rubrics(LabelMethod, frozen=True, kw_only=True):
    """Judge method that judges an answer criterion by criterion; its score is missing if one verdict is."""

    name: str = "rubric"
    scorers: tuple[JudgedScorer, ...] = (SCORER,)
    labels: tuple[str, ...] = (MET, NOT_MET)
    needs: str = "a rubric with positive points; --rubric FILE.toml gives one"
    prompts: tuple[str, ...] = ("judge/criterion",)
    right_texts: bool = False  # a criterion's text is not an answer
    user_criteria: tuple[Criterion, ...] | None = None
    """User's criteria; ``None`` if the questions have their own."""

    def by_rubric(self, file: Path) -> Rubrics:
        """Return this method with the criteria of a TOML file: a `name`, and tables ``[[criterion]]``."""
        try:
            rubric_file = convert(parse_toml(read_text(file)), _File, file, "")
        except TOMLDecodeError as error:
            raise broken(file, f"it is not TOML: {str(error)[:200]}") from None
        criteria = tuple(
            replace(criterion, text=" ".join(criterion.text.split())) for criterion in rubric_file.criterion
        )
        if not any(criterion.points > 0 for criterion in criteria):
            raise broken(file, "no criterion has points above 0, by which a score is defined")
        name = f"{SCORER.name}[{rubric_file.name}-{sha256(msgspec.json.encode(criteria)).hexdigest()[:8]}]"
        return replace(
            self.behind(name, tuple), user_criteria=criteria, needs=f"a criterion of {file} with points above 0"
        )

    def behind(self, scorer: str, scores: Callable[[], Iterable[Score]]) -> Rubrics:
        """Return the method that gave these scores. A user's criteria are read from the predictions, question by
        question."""
        if scorer == SCORER.name:
            return self
        criteria_by_question = {
            score.question_id: judged_criteria(score) for score in scores() if score.scorer == scorer
        }
        criteria = (
            Criterion(criterion.text, criterion.points, criterion.tags, (id,))
            for id, question_criteria in criteria_by_question.items()
            for criterion in question_criteria
        )
        return replace(
            self, name=scorer, scorers=(replace(SCORER, name=scorer, judging=scorer),), user_criteria=tuple(criteria)
        )

    def criteria(self, gold: Gold) -> tuple[Criterion, ...]:
        """Return the criteria of a question."""
        if self.user_criteria is None:
            return tuple(Criterion(text, float("".join(rest[:1]) or 1), tuple(rest[1:])) for text, *rest in gold.facts)
        ids = {gold.question_id, gold.question_id.rpartition("/")[2]}
        return tuple(
            criterion
            for criterion in self.user_criteria
            if not criterion.questions or not ids.isdisjoint(criterion.questions)
        )

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True for long questions with a positive criterion: without one no score is defined."""
        has_rubric = self.user_criteria is not None or question.metadata.get("facts") == RUBRIC
        return has_rubric and question.kind == "long" and any(criterion.points > 0 for criterion in self.criteria(gold))

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """Return the scores of an attempt without a text, which meets no criterion, not even negative ones, and costs
        nothing."""
        verdicts = [(UNASKED, "") for _ in self.criteria(gold)]
        is_free = attempt.status == "not_run" or blank(answer_text(attempt, question))
        return self.scores(attempt, gold, verdicts) if is_free else ()

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """Return one question for each criterion."""
        texts = {"question": fenced(question.text), "answer": fenced(answer_text(attempt, question))}
        (prompt,), form = self.prompts, CriterionForm()
        return tuple(
            JudgeQuestion(prompt=prompt, texts={**texts, "criterion": fenced(text)}, form=form, subjects=(text,))
            for text in self.items(gold).values()
        )

    def scores(self, attempt: Attempt, gold: Gold, verdicts: Sequence[Said]) -> tuple[Score, ...]:
        """Return met points over positive points; missing if there are no positive points, or a verdict is missing."""
        criteria = [
            JudgedCriterion(
                " ".join(criterion.text.split()), criterion.points, criterion.tags, verdict=label or MISSING
            )
            for criterion, (label, _) in zip(self.criteria(gold), verdicts, strict=True)
        ]
        missing, value = (
            sum(criterion.verdict == MISSING for criterion in criteria),
            points_share(criteria),
        )
        reason = "the rubric has no positive points" if value is None else ""
        if missing or attempt.status == "not_run":
            value, reason = None, f"{_UNSURE} {missing} of {len(criteria)} criteria" if missing else ""
        cells = [
            (criterion.verdict, f"{criterion.points:+.10g}", ", ".join(criterion.tags), criterion.text)
            for criterion in criteria
        ]
        prediction = "\n".join(("rubric", *map(" | ".join, cells)))
        return (self.scorers[0].scored(attempt, value, read_long(attempt), prediction, reason),)

    def items(self, gold: Gold) -> dict[str, str]:
        """Return the question's id with ``#1``, ``#2``, … → criterion, in the rubric's order."""
        return {
            f"{gold.question_id}#{number}": criterion.text for number, criterion in enumerate(self.criteria(gold), 1)
        }

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """Return the verdict on each criterion that the judge was asked about."""
        return {
            f"{score.question_id}#{number}": None if criterion.verdict == MISSING else criterion.verdict
            for number, criterion in enumerate(judged_criteria(score), 1)
            if criterion.verdict != UNASKED
        }


def judged_criteria(score: Score) -> tuple[JudgedCriterion, ...]:
    """Return the criteria in a score, in the rubric's order."""
    return tuple(
        JudgedCriterion(text, float(points), tuple(filter(None, tags.split(", "))), verdict=verdict)
        for verdict, points, tags, text in _LINE.findall(score.prediction)
    )


def points_share(criteria: Collection[JudgedCriterion]) -> float | None:
    """Return the met points over the positive points, not clipped; ``None`` if there are no positive points."""
    positive = sum(criterion.points for criterion in criteria if criterion.points > 0)
    return sum(criterion.points for criterion in criteria if criterion.verdict == MET) / positive if positive else None


def part_scores(score: Score, tags: Iterable[str] = ()) -> dict[str, float | None]:
    """Return a score's values by tag.

    The question's own `tags` have the value of the score. A criterion's tag has the value of the criteria with this
    tag, if one of them is positive. A criterion's tag takes precedence over a question's tag of the same name. If a
    score has no value for a reason other than a missing verdict, no part has a value.
    """
    value_by_tag: dict[str, float | None] = dict.fromkeys(tags, score.value)
    criteria, is_known = judged_criteria(score), score.value is not None or score.reason.startswith(_UNSURE)
    for tag in dict.fromkeys(tag for criterion in criteria for tag in criterion.tags):
        tagged = [criterion for criterion in criteria if tag in criterion.tags]
        if (value := points_share(tagged)) is not None:
            value_by_tag[tag] = (
                None if not is_known or any(criterion.verdict == MISSING for criterion in tagged) else value
            )
    return value_by_tag


RUBRIC_METHOD = Rubrics()
