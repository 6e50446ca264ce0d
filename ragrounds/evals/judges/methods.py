"""Judge methods by name, the questions they apply to, and their verdicts in the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import cast

from msgspec import Struct

from ragrounds.base import hooks
from ragrounds.base.errors import UserError, one_of
from ragrounds.base.plugins import discover
from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.evals.judges.attempts import AttemptJudge, LabelJudge, judge_code
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import Price
from ragrounds.tools.index.cards import NamedEmbedder


class JudgeResources(Struct, frozen=True, kw_only=True):
    """Resources that a judge method may need in addition to a judge."""

    store: Store
    embedder: NamedEmbedder | None = None
    verifier: str = "llm"
    prices: Mapping[str, Price] = {}


def judge_methods() -> dict[str, JudgeMethod]:
    """Return every judge method by its name, as discovered in the files of the scorers."""
    return discover(hooks.JUDGE_METHOD, JudgeMethod)


def find_method(name: str) -> JudgeMethod:
    """Return the judge method with this name.

    Raises:
        UserError: the name is unknown.
    """
    methods = judge_methods()
    base = methods.get(name.partition("[")[0])
    if isinstance(base, LabelMethod) and (variant := base.behind(name, tuple)).name == name:
        return variant
    return methods[one_of("--kind", name, methods)]


def label_method(name: str) -> LabelMethod:
    """Return the judge method with this name, whose verdicts must be labels so that people can give them too.

    Raises:
        UserError: the name is unknown, or the method's verdicts are numbers.
    """
    method = find_method(name)
    if not isinstance(method, LabelMethod):
        label_methods = ", ".join(name for name, candidate in judge_methods().items() if candidate.labels)
        raise UserError(
            f"--kind {name!r} gives numbers, which people's labels cannot be set against. Known: {label_methods}."
        )
    return method


def open_method(method: JudgeMethod, means: JudgeResources) -> AttemptJudge:
    """Return the attempt judge of this method.

    Raises:
        UserError: ragas is not installed; a metric that compares vectors has no embedder.
    """
    if not method.asked_by:
        return LabelJudge(cast("LabelMethod", method))
    module, _, function = method.asked_by.partition(":")
    judge: AttemptJudge = getattr(import_module(module), function)(method, means)
    return judge


def asked_form(prompt: str) -> str:
    """Return the verdict form that a prompt requests, as its last line shows it; empty if no label method uses the
    prompt."""
    gold = Gold(question_id="", answer="-", facts=(("-",),))
    question = Question(id="", benchmark="", text="-", kind="long")
    attempt = Attempt(run="", question_id="", epoch=0, status="completed", text="-")
    for method in judge_methods().values():
        if isinstance(method, LabelMethod) and prompt in method.prompts:
            return next(
                (judge_question.form.example for judge_question in method.questions(attempt, question, gold)), ""
            )
    return ""


def judgeable(store: Store, run: Run, method: JudgeMethod, epochs: Collection[int] = ()) -> Callable[[Attempt], bool]:
    """Return a predicate of the attempts of a run that can be judged by this method, in these epochs or in all.

    Raises:
        UserError: the run has no question that fits, or not that many epochs.
    """
    for epoch in epochs:
        if not 0 <= epoch < run.epochs:
            raise UserError(f"The run {run.id} has no epoch {epoch}; it has {run.epochs:,}, counted from 0.")
    questions, golds = store.questions(run)
    fitting_ids = {question.id for question in questions if method.fits(question, golds[question.id])}
    if not fitting_ids:
        other_methods = ", ".join(name for name in judge_methods() if name != method.name.partition("[")[0])
        raise UserError(f"No question of {run.id} has {method.needs}. Other kinds of judging: {other_methods}.")
    return lambda attempt: attempt.question_id in fitting_ids and (not epochs or attempt.epoch in epochs)


def by_panel(store: Store, run: Run, method: LabelMethod) -> bool:
    """Return True if the scores in the store are by a majority of judges and the current code."""
    panel_code = judge_code(method, panel=True)
    return any(score.code == panel_code for score in store.scores(run, method.scorers[-1].name))


def was_judged(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> bool:
    """Return True if an epoch of a run has scores by this judge method."""
    return any(score.epoch == epoch for score in store.scores(run, method.scorers[-1].name))


def verdicts(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> dict[str, str | None]:
    """Return the judge's verdicts by item (:meth:`LabelMethod.items`); ``None`` for an item without a verdict.

    Raises:
        UserError: the run was not judged by this method.
    """
    scorer_name = method.scorers[-1].name
    scores = [score for score in store.scores(run, scorer_name) if score.epoch == epoch]
    if not scores:
        raise UserError(
            f"Epoch {epoch} of {run.id} has no scores under {scorer_name!r}; judge it first with `ragrounds judge`."
        )
    return {item: verdict for score in scores for item, verdict in method.verdicts(score).items()}
