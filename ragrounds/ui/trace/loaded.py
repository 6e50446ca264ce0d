"""An attempt read from the store, with its tree and what the journal holds of its calls."""

from __future__ import annotations

from functools import cached_property

from ragrounds.base.records import WITHOUT_ANSWER, Attempt, Call, Event, Score, outcome
from ragrounds.evals.judges.recorded import judge_replies
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.arenas import AnswerVerdict, answer_verdicts
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.summaries import PREFERRED, AttemptSummary, Pages
from ragrounds.evals.trace.traces import JudgeReply, Trace, TracedCall, traced_call, traced_calls
from ragrounds.evals.trace.traces import calls as calls_of
from ragrounds.ui.text import one_line, percent
from ragrounds.ui.trace.row_text import RowText
from ragrounds.ui.trace.tree import CallFacts, Node, NodeFigures, attempt_tree, call_facts, measured, walk


class LoadedAttempt:
    """An attempt with its tree, and what the journal holds of its calls.

    Rows come from one look into the journal, without what models were sent; that is read when a call is looked at. One
    that was not run yet is a tree of one node.
    """

    def __init__(self, pages: Pages | None, summary: AttemptSummary) -> None:
        """Read it from the store of `pages`, where there are any."""
        self.summary = summary
        self.attempt: Attempt | None = None
        self.scores: tuple[Score, ...] = ()
        self.sketch: tuple[TracedCall, ...] = ()
        """Its calls in order, as far as rows tell of them: without what models were sent and the texts of passages."""
        self.damage = ""
        """What is amiss with what the store holds of it; empty: nothing that was met."""
        self.root = _nothing(summary)
        self._events: tuple[Event, ...] = ()
        self._pages, self._store = pages, pages.store if pages is not None else None
        self._others: dict[str, TracedCall] = {}
        if pages is not None:
            try:
                self._read(pages)
            except DamagedRecord as damaged:  # the others can be looked at all the same
                self.attempt, self.damage = None, str(damaged)
                self.root = _nothing(summary, "damaged: ragrounds doctor --store")

    def _read(self, pages: Pages) -> None:
        run, id, epoch = self.summary.run, self.summary.question.id, self.summary.epoch
        self.attempt = pages.store.attempt(run, id, epoch)
        if self.attempt is None:
            return
        self.scores = pages.scores(self.summary)
        self._events = self.attempt.events
        self.sketch = traced_calls(pages.store, tuple(calls_of(self._events)), brief=True)
        self.root = attempt_tree(self.attempt, self._facts())

    @classmethod
    def of_trace(cls, trace: Trace) -> LoadedAttempt:
        """An attempt of which all was read already; judges' verdicts in arenas are not part of that."""
        made = cls(None, _summary_of_trace(trace))
        made.attempt, made.scores, made.judged = trace.attempt, trace.scores, trace.judged
        made._events = trace.attempt.events
        known = {id(one.call): one for step in trace.steps for one in step.calls}
        made.sketch = tuple(known.get(id(call), TracedCall(call)) for call in calls_of(made._events))
        made.root = attempt_tree(trace.attempt, made._facts())
        return made

    def _facts(self) -> CallFacts:
        words = answer_words(self.summary) if self.attempt else ()
        return call_facts(self.sketch, self.summary.gold, self.attempt.text if self.attempt else "", words)

    @cached_property
    def traced(self) -> tuple[TracedCall, ...]:
        """Its calls in order, whole."""
        return traced_calls(self._store, tuple(calls_of(self._events))) if self._store is not None else self.sketch

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """What its searches found, and what became of that."""
        return hops_of(self.traced, self.summary.gold)

    def recorded(self, call: Call) -> TracedCall:
        """A call with its request and its response, from the journal.

        Raises:
            DamagedRecord: what the journal holds is not what was written.
        """
        for one in self.traced:
            if one.call is call and (one.reply is not None or one.searched is not None or one.used is not None):
                return one
        if self._store is None:
            return TracedCall(call)
        if call.key not in self._others or not call.key:
            self._others[call.key] = traced_call(self._store, call)
        return self._others[call.key]

    @cached_property
    def beside(self) -> list[AttemptSummary]:
        """What the other runs of its pages answered to its question, in its epoch."""
        if self._pages is None:
            return []
        place, runs = self.summary.question.id, range(len(self._pages.runs))
        found = (self._pages.row_of(run, place, self.summary.epoch) for run in runs)
        return self._pages.read([one for one in found if one is not None and one != self.summary.index])

    @cached_property
    def answer_verdicts(self) -> list[AnswerVerdict]:
        """What judges said of this answer in arenas."""
        if self._store is None:
            return []
        return answer_verdicts(self._store, self.summary.run.id, self.summary.question.id, self.summary.epoch)

    @cached_property
    def judged(self) -> tuple[JudgeReply, ...]:
        """What judges replied about the answer when they were asked for its scores."""
        if self._store is None or self.attempt is None:
            return ()
        one = self.summary
        return judge_replies(self._store, one.run, self.attempt, one.question, one.gold, self.scores)

    def node_of(self, place: int) -> str:
        """The key of the node of a call, by its place among the calls of the attempt; the attempt's where there is
        none."""
        return next((node.key for node in walk(self.root) if node.place == place), self.root.key)


def answer_words(summary: AttemptSummary) -> tuple[tuple[str, str], ...]:
    """What was answered and what it is worth, with styles: ``B ✗``, ``gold A``."""
    sign, style = outcome_sign(summary)
    given = summary.question.options and summary.outcome not in WITHOUT_ANSWER
    read = one_line(summary.prediction, 30) if given else ""
    word = "" if summary.outcome == "answered" else one_line(summary.outcome.replace("_", " "), 30)
    if read and summary.outcome == "unreadable":
        word += ", counted as"
    made = [(" ".join(part for part in (word, read, sign) if part), style)]
    if summary.wrong and summary.question.options:
        made.append((f"gold {one_line(summary.gold.answer, 30)}", "gold"))
    if summary.value is not None and 0 < summary.value < 1:
        made.append((percent(summary.value, 0) + " %", "key"))
    return tuple(made)


def outcome_sign(summary: AttemptSummary) -> tuple[str, str]:
    """✓ right, ✗ wrong, ½ partly, with its style; nothing where no score says so."""
    if summary.value is None:
        return "", "trouble" if summary.troubled else "key"
    return ("✓", "right") if summary.value >= 1 else ("✗", "wrong") if summary.value <= 0 else ("½", "key")


def _nothing(summary: AttemptSummary, why: str = "not run yet") -> Node:
    row = RowText(summary.question.id, said=((why, "dim"),))
    figures = NodeFigures(None, None, None)
    return Node(key="attempt", kind="attempt", label=summary.question.id, figures=figures, row=row, folded=row)


def _summary_of_trace(trace: Trace) -> AttemptSummary:
    """The row of an attempt as a list has it, by the headline of its question where that has scored it."""
    attempt, by_scorer = trace.attempt, {score.scorer: score for score in trace.scores}
    preferred = [*(one.scorer for one in headline_of([trace.question])), *PREFERRED]
    score = next((by_scorer[name] for name in preferred if name in by_scorer), None)
    used = attempt.usage
    return AttemptSummary(
        run=trace.run,
        index=-1,
        question=trace.question,
        gold=trace.gold,
        epoch=attempt.epoch,
        outcome=outcome(attempt.status, score.answer_status if score else None),
        scorer=score.scorer if score else "",
        value=score.value if score else None,
        prediction=score.prediction if score else "",
        cost_uncached=attempt.cost_uncached,
        cost_paid=attempt.cost_paid,
        tokens=used.input + used.output if used else None,
        model_calls=attempt.model_calls,
        seconds=measured(attempt.seconds, attempt.at),
        at=attempt.at,
    )
