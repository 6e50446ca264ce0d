"""What judges said of stored runs, read again from the recorded calls: no model is asked.

Scores hold no judge, and the store keeps the calls of all that were ever asked. The questions that a way of judging
puts to its judge are made again, and the calls are looked up by their keys. So a reply to another wording of the prompt
(an earlier version's) is not found, and neither is one of ragas' judges: then the judges of the run are named alone.
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
_READ = 500
"""Questions whose recorded replies are read again: enough to tell judges apart."""


class RecordedJudge:
    """One judge, as the journal of a store holds it: asked again, it says what it said (its journal is itself:
    :class:`ragrounds.base.contracts.Journal`).

    Args:
        store: that holds its calls.
        by: how it is asked.
        name: its text.
    """

    def __init__(self, store: Store, by: AttemptJudge, name: str) -> None:
        self._store, self._by, self._prompts = store, by, PromptFolder()
        # Known by its name alone: it makes no reply, and costs nothing.
        self._model = cast("Model", SimpleNamespace(spec=name, price=lambda reply: None))
        self.replies: list[Reply] = []
        """Of the last answer that it was asked about."""

    def judge(self, attempt: Attempt, question: Question, gold: Gold) -> JudgedAnswer | None:
        """What it said of an attempt; ``None``: some reply is not recorded, or damaged."""
        self.replies = []
        try:
            return _finished(self._by.judge(attempt, question, gold, self._model, self, self._prompts))
        except StopRun:
            return None

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The recorded reply.

        Raises:
            ragrounds.base.errors.StopRun: there is none, or it is damaged.
        """
        try:
            found = self._store.call(entry.key, Request, kind)
        except DamagedRecord as damaged:
            raise StopRun(str(damaged)) from None
        if found is None:
            raise StopRun("the call is not recorded")
        reply: T = found[1]
        if isinstance(reply, Reply):
            self.replies.append(reply)
        return reply, True


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as look-ups do: it needs no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a recorded judge waited for something")


class RecordedVerdicts(Struct, frozen=True, kw_only=True):
    """One judge's verdicts on one epoch of a run."""

    judge: str
    verdicts: dict[str, str | None]
    """Item → label; ``None``: it was asked, and gave none."""


def recorded_verdicts(
    store: Store, run: Run, method: LabelMethod, epoch: int = 0, only: Set[str] | None = None
) -> list[RecordedVerdicts]:
    """The verdicts of every judge that the journal holds replies of, of one epoch; judges without any are left out.
    `only` holds the ids of the questions that are read; ``None``: all."""
    named = store.judges(run)
    if not named:
        return []
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    fitting = {question.id: question for question in questions if method.fits(question, golds[question.id])}
    wanted = fitting.keys() if only is None else fitting.keys() & only
    attempts = [each for each in store.attempts(run) if each.epoch == epoch and each.question_id in wanted]
    made = []
    for name in named:
        by, said = RecordedJudge(store, LabelJudge(method), name), dict[str, str | None]()
        for attempt in attempts:
            gold = golds[attempt.question_id]
            judged, items = by.judge(attempt, fitting[attempt.question_id], gold), list(method.items(gold))
            if judged is not None and len(items) == len(judged.verdicts):
                said |= {item: verdict.outcome or None for item, verdict in zip(items, judged.verdicts, strict=True)}
        if said:
            made.append(RecordedVerdicts(judge=name, verdicts=said))
    return made


def judge_replies(
    store: Store, run: Run, attempt: Attempt, question: Question, gold: Gold, scores: tuple[Score, ...]
) -> tuple[JudgeReply, ...]:
    """What each judge of a run replied about an attempt, by scorer and judge, in the order of the calls.

    Args:
        store: of the run.
        run: judged.
        attempt: of the run.
        question: of the attempt.
        gold: of the question.
        scores: of the attempt, by all scorers.
    """
    judged = [(score.scorer, one) for score in scores if isinstance(one := described(score.scorer), JudgedScorer)]
    if not judged:
        return ()
    judges = store.judges(run)
    made: list[JudgeReply] = []
    for name, scorer in judged:
        method = find_method(scorer.judging)
        told: dict[str, list[Reply]] = {}
        for judge in judges if isinstance(method, LabelMethod) else ():
            by = RecordedJudge(store, LabelJudge(cast("LabelMethod", method).behind(name, lambda: scores)), judge)
            # Nothing needed to be asked, or it was this judge: else another was asked, or in other words.
            if by.judge(attempt, question, gold) is not None or by.replies:
                told[judge] = by.replies
        made += [
            JudgeReply(scorer=name, judge=judge, model=one.model, text=one.text)
            for judge, replies in told.items()
            for one in replies
        ]
        if judges and not told:
            made.append(JudgeReply(scorer=name, judge=" or ".join(judges), text="", told=False))
    return tuple(made)


def with_replies(store: Store, trace: Trace) -> Trace:
    """A trace with what judges replied about it."""
    made = judge_replies(store, trace.run, trace.attempt, trace.question, trace.gold, trace.scores)
    return replace(trace, judged=made)


class ScoreJudges(Struct, frozen=True):
    """Who gave the verdicts behind scores."""

    judges: tuple[str, ...]
    """One, or the members of a panel; where it is not `known`, those that it may have been."""
    panel: bool = False
    """The majority of `judges` counts."""
    known: bool = True
    """Whether the store tells who it was. It does not where several judges said the same of everything, or where their
    replies cannot be read any more."""


class JudgeFinder:
    """Finds who gave the verdicts behind the scores of runs; of each way of judging a run once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, str], ScoreJudges | None] = {}
        self._noise: dict[tuple[str, str], str] = {}

    def __call__(self, run: Run, scorer: str) -> ScoreJudges | None:
        """Whose verdicts a run's scores under a scorer rest on; ``None``: it needs no judge, or none was asked."""
        judged = described(scorer)
        if not isinstance(judged, JudgedScorer):
            return None
        key = (run.id, judged.judging)
        if key not in self._found:
            self._found[key] = self._judges(run, judged.judging)
        return self._found[key]

    def noise(self, run: Run, scorer: str) -> str:
        """How often the judge of a run's scores says another thing when it is asked again, by its recorded probes;
        empty: it was not probed, or it is not one judge that is known."""
        found, key = self(run, scorer), (run.id, getattr(described(scorer), "judging", ""))
        if found is not None and key not in self._noise:
            probes = probes_of(find_method(key[1]))
            self._noise[key] = probes.recorded_noise(self._store, run, find_method(key[1]), found) if probes else ""
        return self._noise.get(key, "")

    def _judges(self, run: Run, kind: str) -> ScoreJudges | None:
        asked, method = tuple(self._store.judges(run)), find_method(kind)
        codes = self._store.score_codes(run).get(method.scorers[-1].name, set())
        for verifier in method.verifiers[1:]:
            if judge_code(method, verifier=verifier) in codes:
                return ScoreJudges((verifier,))
        if not asked:
            return None
        if not isinstance(method, LabelMethod):
            return ScoreJudges(asked, known=len(asked) == 1)
        return _verdict_judges(self._store, run, method, asked)


def _verdict_judges(store: Store, run: Run, method: LabelMethod, asked: Sequence[str]) -> ScoreJudges:
    """Whose verdicts of a kind that is labels the scores hold; `asked` are all whose replies about the run are kept."""
    panel = by_panel(store, run, method)
    if len(asked) == 1 and not panel:
        return ScoreJudges(tuple(asked))
    scores = store.scores(run, method.scorers[-1].name)
    epoch = min((score.epoch for score in scores), default=0)
    given = {score.question_id: method.verdicts(score) for score in scores if score.epoch == epoch}
    read = sorted(given, key=lambda question: not any(given[question].values()))[:_READ]  # with a verdict first
    held = {item: label for question in read for item, label in given[question].items()}
    recorded = recorded_verdicts(store, run, method, epoch, set(read))
    said = [one for one in recorded if any(one.verdicts.values())]
    groups = [tuple(said)] if panel else [(one,) for one in said]
    found = _nearest(held, groups)
    if len(found) == 1:
        return ScoreJudges(tuple(one.judge for one in found[0]), panel=panel)
    # Two that said the same of everything, or nothing that fits: those that it may have been.
    names = dict.fromkeys(one.judge for group in (found or groups) for one in group)
    return ScoreJudges(tuple(names) or tuple(asked), panel=panel, known=False)


def _nearest(
    held: Mapping[str, str | None], groups: Sequence[tuple[RecordedVerdicts, ...]]
) -> list[tuple[RecordedVerdicts, ...]]:
    """The groups that say every verdict in the scores; of these, the ones that say least where the scores have none."""
    fitting: list[tuple[int, tuple[RecordedVerdicts, ...]]] = []
    for group in groups:
        items = {item for one in group for item in one.verdicts}
        voted = {item: majority([one.verdicts.get(item) for one in group]) for item in items}
        # An answer without a text was put to nobody, so that nobody said the verdict that its scores may hold.
        if items and all(voted[item] == held.get(item) for item in items if held.get(item) is not None):
            fitting.append((sum(voted[item] is not None and held.get(item) is None for item in items), group))
    least = min((more for more, _ in fitting), default=0)
    return [group for more, group in fitting if more == least]
