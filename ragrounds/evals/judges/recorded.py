"""Verdicts of judges on stored runs, read again from the recorded calls without asking a model.

Scores do not name their judge, and the store keeps the calls of all judges that were ever asked. The questions that a
judge method asks are built again, and the calls are looked up by their keys. So replies to another wording of the
prompt (of an earlier version) are not matched, and neither are replies of ragas' judges. In these cases only the names
of the run's judges are known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Model, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Attempt, Gold, Question, Reply, Run, Score
from ragrounds.evals.judges.attempts import AttemptJudge, JudgedAnswer, LabelJudge, judge_code
from ragrounds.evals.judges.gate import probes_of
from ragrounds.evals.judges.methods import by_panel, find_method
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.stats import majority
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import JudgeReply, Trace
from ragrounds.prompts.loader import PromptFolder

T = TypeVar("T")
_MOST_QUESTIONS = 500
"""Number of questions whose recorded replies are read again: enough to distinguish judges."""


class RecordedJudge:
    """Judge that repeats its recorded replies from the journal of a store.

    It is its own journal (:class:`ragrounds.base.contracts.Journal`).

    Args:
        store: store of its calls.
        attempt_judge: attempt judge that asks it.
        name: spec of the judge.
    """

    def __init__(self, store: Store, attempt_judge: AttemptJudge, name: str) -> None:
        self._store, self._judge, self._prompts = store, attempt_judge, PromptFolder()
        # Only the name is known: the stand-in makes no reply and costs nothing.
        self._model = cast("Model", SimpleNamespace(spec=name, price=lambda reply: None))
        self.replies: list[Reply] = []
        """Replies about the last answer that it was asked about."""

    def judge(self, attempt: Attempt, question: Question, gold: Gold) -> JudgedAnswer | None:
        """Return the judged answer of an attempt; ``None`` if some reply is not recorded, or damaged."""
        self.replies = []
        try:
            return _finished(self._judge.judge(attempt, question, gold, self._model, self, self._prompts))
        except StopRun:
            return None

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """Return the recorded reply.

        Raises:
            ragrounds.base.errors.StopRun: the reply is not recorded, or it is damaged.
        """
        try:
            stored_call = self._store.call(entry.key, Request, kind)
        except DamagedRecord as damaged:
            raise StopRun(str(damaged)) from None
        if stored_call is None:
            raise StopRun("the call is not recorded")
        reply: T = stored_call[1]
        if isinstance(reply, Reply):
            self.replies.append(reply)
        return reply, True


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits. Look-ups do not wait, so they need no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a recorded judge waited for something")


class RecordedVerdicts(Struct, frozen=True, kw_only=True):
    """Verdicts of one judge on one epoch of a run."""

    judge: str
    verdicts: dict[str, str | None]
    """Item → label; ``None`` if the judge was asked and gave no verdict."""


def recorded_verdicts(
    store: Store, run: Run, method: LabelMethod, epoch: int = 0, only: Set[str] | None = None
) -> list[RecordedVerdicts]:
    """Return the verdicts of every judge with recorded replies on one epoch; judges without replies are left out.

    `only` holds the ids of the questions to read; ``None`` for all.
    """
    judge_names = store.judges(run)
    if not judge_names:
        return []
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    fitting = {question.id: question for question in questions if method.fits(question, golds[question.id])}
    question_ids = fitting.keys() if only is None else fitting.keys() & only
    attempts = [
        attempt for attempt in store.attempts(run) if attempt.epoch == epoch and attempt.question_id in question_ids
    ]
    recorded = []
    for name in judge_names:
        recorded_judge, labels = RecordedJudge(store, LabelJudge(method), name), dict[str, str | None]()
        for attempt in attempts:
            gold = golds[attempt.question_id]
            judged_answer, items = (
                recorded_judge.judge(attempt, fitting[attempt.question_id], gold),
                list(method.items(gold)),
            )
            if judged_answer is not None and len(items) == len(judged_answer.verdicts):
                labels |= {
                    item: verdict.outcome or None for item, verdict in zip(items, judged_answer.verdicts, strict=True)
                }
        if labels:
            recorded.append(RecordedVerdicts(judge=name, verdicts=labels))
    return recorded


def judge_replies(
    store: Store, run: Run, attempt: Attempt, question: Question, gold: Gold, scores: tuple[Score, ...]
) -> tuple[JudgeReply, ...]:
    """Return the replies of each judge of a run about an attempt, by scorer and judge, in the order of the calls.

    Args:
        store: store of the run.
        run: judged run.
        attempt: attempt of the run.
        question: question of the attempt.
        gold: gold of the question.
        scores: scores of the attempt by all scorers.
    """
    judged_scorers = [
        (score.scorer, scorer_record)
        for score in scores
        if isinstance(scorer_record := described(score.scorer), JudgedScorer)
    ]
    if not judged_scorers:
        return ()
    judges = store.judges(run)
    all_replies: list[JudgeReply] = []
    for name, scorer in judged_scorers:
        method = find_method(scorer.judging)
        replies_by_judge: dict[str, list[Reply]] = {}
        for judge in judges if isinstance(method, LabelMethod) else ():
            recorded_judge = RecordedJudge(
                store, LabelJudge(cast("LabelMethod", method).behind(name, lambda: scores)), judge
            )
            # Either nothing needed to be asked, or this judge was asked. Otherwise another judge was asked, or
            # the prompt had another wording.
            if recorded_judge.judge(attempt, question, gold) is not None or recorded_judge.replies:
                replies_by_judge[judge] = recorded_judge.replies
        all_replies += [
            JudgeReply(scorer=name, judge=judge, model=reply.model, text=reply.text)
            for judge, replies in replies_by_judge.items()
            for reply in replies
        ]
        if judges and not replies_by_judge:
            all_replies.append(JudgeReply(scorer=name, judge=" or ".join(judges), text="", told=False))
    return tuple(all_replies)


def with_replies(store: Store, trace: Trace) -> Trace:
    """Return a trace with the judges' replies about it."""
    replies = judge_replies(store, trace.run, trace.attempt, trace.question, trace.gold, trace.scores)
    return replace(trace, judged=replies)


class ScoreJudges(Struct, frozen=True):
    """Judges that gave the verdicts behind scores."""

    judges: tuple[str, ...]
    """One judge, or the members of a panel; if not `known`, all judges that it may have been."""
    panel: bool = False
    """True if the majority of `judges` counts."""
    known: bool = True
    """True if the store shows which judge it was. It does not if several judges gave the same verdicts, or if their
    replies cannot be read any more."""


class JudgeFinder:
    """Finder of the judges behind the scores of runs, cached by run and judge method."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found_judges: dict[tuple[str, str], ScoreJudges | None] = {}
        self._noise: dict[tuple[str, str], str] = {}

    def __call__(self, run: Run, scorer: str) -> ScoreJudges | None:
        """Return the judges behind a run's scores under a scorer; ``None`` if it needs no judge, or none was asked."""
        record = described(scorer)
        if not isinstance(record, JudgedScorer):
            return None
        key = (run.id, record.judging)
        if key not in self._found_judges:
            self._found_judges[key] = self._judges(run, record.judging)
        return self._found_judges[key]

    def noise(self, run: Run, scorer: str) -> str:
        """Return the share of verdicts that the judge of a run's scores changes when asked again, by its recorded
        probes.

        Empty if it was not probed, or if no single judge is known.
        """
        score_judges, key = self(run, scorer), (run.id, getattr(described(scorer), "judging", ""))
        if score_judges is not None and key not in self._noise:
            probes = probes_of(find_method(key[1]))
            self._noise[key] = (
                probes.recorded_noise(self._store, run, find_method(key[1]), score_judges) if probes else ""
            )
        return self._noise.get(key, "")

    def _judges(self, run: Run, kind: str) -> ScoreJudges | None:
        judge_names, method = tuple(self._store.judges(run)), find_method(kind)
        codes = self._store.score_codes(run).get(method.scorers[-1].name, set())
        for verifier in method.verifiers[1:]:
            if judge_code(method, verifier=verifier) in codes:
                return ScoreJudges((verifier,))
        if not judge_names:
            return None
        if not isinstance(method, LabelMethod):
            return ScoreJudges(judge_names, known=len(judge_names) == 1)
        return _verdict_judges(self._store, run, method, judge_names)


def _verdict_judges(store: Store, run: Run, method: LabelMethod, judge_names: Sequence[str]) -> ScoreJudges:
    """Return the judges whose labels the scores hold; `judge_names` are all whose replies about the run are
    recorded."""
    panel = by_panel(store, run, method)
    if len(judge_names) == 1 and not panel:
        return ScoreJudges(tuple(judge_names))
    scores = store.scores(run, method.scorers[-1].name)
    epoch = min((score.epoch for score in scores), default=0)
    verdicts_by_question = {score.question_id: method.verdicts(score) for score in scores if score.epoch == epoch}
    question_ids = sorted(verdicts_by_question, key=lambda question: not any(verdicts_by_question[question].values()))[
        :_MOST_QUESTIONS
    ]  # questions with a verdict first
    scored_labels = {item: label for question in question_ids for item, label in verdicts_by_question[question].items()}
    recorded = recorded_verdicts(store, run, method, epoch, set(question_ids))
    with_verdicts = [recorded_set for recorded_set in recorded if any(recorded_set.verdicts.values())]
    groups = [tuple(with_verdicts)] if panel else [(recorded_set,) for recorded_set in with_verdicts]
    matching = _matching_groups(scored_labels, groups)
    if len(matching) == 1:
        return ScoreJudges(tuple(recorded_set.judge for recorded_set in matching[0]), panel=panel)
    # Several judges gave the same verdicts, or none matches: return all candidates.
    names = dict.fromkeys(recorded_set.judge for group in (matching or groups) for recorded_set in group)
    return ScoreJudges(tuple(names) or tuple(judge_names), panel=panel, known=False)


def _matching_groups(
    scored_labels: Mapping[str, str | None], groups: Sequence[tuple[RecordedVerdicts, ...]]
) -> list[tuple[RecordedVerdicts, ...]]:
    """Return the groups whose verdicts agree with every verdict in the scores, and of these the ones with the fewest
    additional verdicts."""
    fitting: list[tuple[int, tuple[RecordedVerdicts, ...]]] = []
    for group in groups:
        items = {item for recorded in group for item in recorded.verdicts}
        votes = {item: majority([recorded.verdicts.get(item) for recorded in group]) for item in items}
        # An answer without a text was shown to no judge, so no judge gave the verdict that its scores may hold.
        if items and all(
            votes[item] == scored_labels.get(item) for item in items if scored_labels.get(item) is not None
        ):
            fitting.append((sum(votes[item] is not None and scored_labels.get(item) is None for item in items), group))
    least_surplus = min((surplus for surplus, _ in fitting), default=0)
    return [group for surplus, group in fitting if surplus == least_surplus]
