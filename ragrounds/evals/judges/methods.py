"""The ways of judging by name, the questions that each is for, and the verdicts that it left in the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import cast

from msgspec import Struct

from ragrounds.base import hooks
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import discover
from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.evals.judges.attempts import AttemptJudge, LabelJudge, judge_code
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import Price
from ragrounds.tools.index.cards import NamedEmbedder


class JudgeMeans(Struct, frozen=True, kw_only=True):
    """What a way of judging may need beside a judge."""

    store: Store
    embedder: NamedEmbedder | None = None
    verifier: str = "llm"
    prices: Mapping[str, Price] = {}


def judge_methods() -> dict[str, JudgeMethod]:
    """Every way of judging by its name: they are found in the files of the scorers."""
    return discover(hooks.JUDGE_METHOD, JudgeMethod)


def find_method(name: str) -> JudgeMethod:
    """A way of judging by its name.

    Raises:
        UserError: there is none of this name.
    """
    known = judge_methods()
    base = known.get(name.partition("[")[0])
    if isinstance(base, LabelMethod) and (own := base.behind(name, tuple)).name == name:
        return own
    if name not in known:
        raise UserError(f"--kind {name!r} is unknown.{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name]


def label_method(name: str) -> LabelMethod:
    """A way of judging whose verdicts are labels, so that people can give them too.

    Raises:
        UserError: there is none of this name, or its verdicts are numbers.
    """
    found = find_method(name)
    if not isinstance(found, LabelMethod):
        known = ", ".join(name for name, each in judge_methods().items() if each.labels)
        raise UserError(f"--kind {name!r} gives numbers, which people's labels cannot be set against. Known: {known}.")
    return found


def open_method(method: JudgeMethod, means: JudgeMeans) -> AttemptJudge:
    """What judges attempts in this way.

    Raises:
        UserError: ragas is not installed; no embedder for a metric that compares vectors.
    """
    if not method.asked_by:
        return LabelJudge(cast("LabelMethod", method))
    module, _, function = method.asked_by.partition(":")
    judge: AttemptJudge = getattr(import_module(module), function)(method, means)
    return judge


def asked_form(prompt: str) -> str:
    """The verdict that a prompt asks a judge for, as its last line holds it; empty: it is no prompt of judges' kinds
    that are labels."""
    gold = Gold(question_id="", answer="-", facts=(("-",),))
    question = Question(id="", benchmark="", text="-", kind="long")
    attempt = Attempt(run="", question_id="", epoch=0, status="completed", text="-")
    for method in judge_methods().values():
        if isinstance(method, LabelMethod) and prompt in method.prompts:
            return next((one.form.example for one in method.questions(attempt, question, gold)), "")
    return ""


def judgeable(store: Store, run: Run, method: JudgeMethod, epochs: Collection[int] = ()) -> Callable[[Attempt], bool]:
    """Which attempts of a run can be judged in this way, in these epochs or in all.

    Raises:
        UserError: the run has no such question, or not that many epochs.
    """
    for epoch in epochs:
        if not 0 <= epoch < run.epochs:
            raise UserError(f"The run {run.id} has no epoch {epoch}; it has {run.epochs:,}, counted from 0.")
    questions, golds = store.questions(run)
    fitting = {question.id for question in questions if method.fits(question, golds[question.id])}
    if not fitting:
        known = ", ".join(name for name in judge_methods() if name != method.name.partition("[")[0])
        raise UserError(f"No question of {run.id} has {method.needs}. Other kinds of judging: {known}.")
    return lambda attempt: attempt.question_id in fitting and (not epochs or attempt.epoch in epochs)


def by_panel(store: Store, run: Run, method: LabelMethod) -> bool:
    """Whether the scores in the store are those of a majority of judges, by this version's code."""
    voted = judge_code(method, panel=True)
    return any(score.code == voted for score in store.scores(run, method.scorers[-1].name))


def was_judged(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> bool:
    """Whether an epoch of a run has scores of this way of judging."""
    return any(score.epoch == epoch for score in store.scores(run, method.scorers[-1].name))


def verdicts(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> dict[str, str | None]:
    """What the judge said, by item (:meth:`LabelMethod.items`); ``None``: it gave no verdict.

    Raises:
        UserError: the run was not judged in this way.
    """
    holder = method.scorers[-1].name
    scores = [score for score in store.scores(run, holder) if score.epoch == epoch]
    if not scores:
        raise UserError(
            f"Epoch {epoch} of {run.id} has no scores under {holder!r}; judge it first with `ragrounds judge`."
        )
    return {item: verdict for score in scores for item, verdict in method.verdicts(score).items()}
