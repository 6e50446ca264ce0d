"""Attempt read from the store, with its tree and the journal's records of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ragrounds.base.records import WITHOUT_ANSWER, Attempt, Call, Event, Run, Score, outcome
from ragrounds.evals.judges.recorded import judge_replies
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.arenas import AnswerVerdict, answer_verdicts
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.summaries import PREFERRED, AttemptSummary, Pages
from ragrounds.evals.trace.traces import JudgeReply, Trace, TracedCall, traced_call, traced_calls
from ragrounds.evals.trace.traces import calls as calls_of
from ragrounds.ui.signs import score_sign
from ragrounds.ui.text import one_line, percent
from ragrounds.ui.trace.row_text import RowText
from ragrounds.ui.trace.tree import CallFacts, Node, NodeFigures, attempt_tree, call_facts, measured, walk


def open_pages(store: Store, runs: Sequence[Run], scorers: Sequence[str] = ()) -> Pages:
    """Return the rows of some runs with current scores: by `scorers`, then the headline's, then preferred ones."""
    for run in runs:
        refresh_scores(store, run)
    # The first question leads to the benchmark's card.
    first = [row.question for row in Pages(store, runs).read([0])]
    headlines = [headline.scorer for headline in headline_of(first)]
    return Pages(store, runs, tuple(dict.fromkeys((*scorers, *headlines, *PREFERRED))), scorers)


class LoadedAttempt:
    """Attempt with its tree and the journal's records of its calls.

    Rows need one query of the journal, without requests to models; a request is read when its call is opened. An
    attempt that was not run yet is a tree of one node.
    """

    def __init__(self, pages: Pages | None, summary: AttemptSummary) -> None:
        """Read the attempt from the store of `pages`, if given."""
        self.summary = summary
        self.attempt: Attempt | None = None
        self.scores: tuple[Score, ...] = ()
        self.sketch: tuple[TracedCall, ...] = ()
        """Calls in order, with the data that rows need: without requests to models and texts of passages."""
        self.damage = ""
        """Damage of the stored attempt, in words; empty if none was noticed."""
        self.root = _single_node(summary)
        self._events: tuple[Event, ...] = ()
        self._pages, self._store = pages, pages.store if pages is not None else None
        self._single_calls: dict[str, TracedCall] = {}
        if pages is not None:
            try:
                self._read(pages)
            except DamagedRecord as damaged:  # other attempts can still be viewed
                self.attempt, self.damage = None, str(damaged)
                self.root = _single_node(summary, "damaged: ragrounds doctor --store")

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
        """Return an attempt whose data was already read. Verdicts in arenas are not part of that."""
        loaded = cls(None, _summary_of_trace(trace))
        loaded.attempt, loaded.scores, loaded.judge_replies = trace.attempt, trace.scores, trace.judged
        loaded._events = trace.attempt.events
        traced_by_call = {id(traced.call): traced for step in trace.steps for traced in step.calls}
        loaded.sketch = tuple(traced_by_call.get(id(call), TracedCall(call)) for call in calls_of(loaded._events))
        loaded.root = attempt_tree(trace.attempt, loaded._facts())
        return loaded

    def _facts(self) -> CallFacts:
        words = answer_words(self.summary) if self.attempt else ()
        return call_facts(self.sketch, self.summary.gold, self.attempt.text if self.attempt else "", words)

    @cached_property
    def traced(self) -> tuple[TracedCall, ...]:
        """Calls in order, with all their data."""
        return traced_calls(self._store, tuple(calls_of(self._events))) if self._store is not None else self.sketch

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """Searches with the passages found and their fate."""
        return hops_of(self.traced, self.summary.gold)

    def hop_of(self, call_number: int) -> Hop | None:
        """Return the search that a call made, given the call's number in the attempt."""
        return next((hop for hop in self.hops if hop.call == call_number), None)

    def recorded(self, call: Call) -> TracedCall:
        """Return a call with its request and its response, from the journal.

        Raises:
            DamagedRecord: the journal's record is not what was written.
        """
        for candidate in self.traced:
            if candidate.call is call and (
                candidate.reply is not None or candidate.searched is not None or candidate.used is not None
            ):
                return candidate
        if self._store is None:
            return TracedCall(call)
        if call.key not in self._single_calls or not call.key:
            self._single_calls[call.key] = traced_call(self._store, call)
        return self._single_calls[call.key]

    @cached_property
    def other_answers(self) -> list[AttemptSummary]:
        """Answers of the other runs of the pages to the same question, in the same epoch."""
        if self._pages is None:
            return []
        question_id, runs = self.summary.question.id, range(len(self._pages.runs))
        indices = (self._pages.row_of(run, question_id, self.summary.epoch) for run in runs)
        return self._pages.read([index for index in indices if index is not None and index != self.summary.index])

    @cached_property
    def answer_verdicts(self) -> list[AnswerVerdict]:
        """Verdicts on this answer in arenas."""
        if self._store is None:
            return []
        return answer_verdicts(self._store, self.summary.run.id, self.summary.question.id, self.summary.epoch)

    @cached_property
    def judge_replies(self) -> tuple[JudgeReply, ...]:
        """Replies of judges that were asked for the scores of this answer."""
        if self._store is None or self.attempt is None:
            return ()
        summary = self.summary
        return judge_replies(self._store, summary.run, self.attempt, summary.question, summary.gold, self.scores)

    def node_of(self, call_number: int) -> str:
        """Return the key of a call's node, given the call's number in the attempt; the key of the root if it has no
        node."""
        return next((node.key for node in walk(self.root) if node.call_number == call_number), self.root.key)


def answer_words(summary: AttemptSummary) -> tuple[tuple[str, str], ...]:
    """Return the answer and its worth, with styles: ``B ✗``, ``gold A``."""
    value = summary.value
    sign, style = ("", "trouble" if summary.troubled else "key") if value is None else score_sign(value)
    chose_option = summary.question.options and summary.outcome not in WITHOUT_ANSWER
    read = one_line(summary.prediction, 30) if chose_option else ""
    word = "" if summary.outcome == "answered" else one_line(summary.outcome.replace("_", " "), 30)
    if read and summary.outcome == "unreadable":
        word += ", counted as"
    words = [(" ".join(part for part in (word, read, sign) if part), style)]
    if summary.wrong and summary.question.options:
        words.append((f"gold {one_line(summary.gold.answer, 30)}", "gold"))
    if value is not None and 0 < value < 1:
        words.append((percent(value, 0) + " %", "key"))
    return tuple(words)


def _single_node(summary: AttemptSummary, reason: str = "not run yet") -> Node:
    row = RowText(summary.question.id, annotations=((reason, "dim"),))
    figures = NodeFigures(None, None, None)
    return Node(key="attempt", kind="attempt", label=summary.question.id, figures=figures, row=row)


def _summary_of_trace(trace: Trace) -> AttemptSummary:
    """Return the attempt's row in a list, scored by the headline of its question if that has scored it."""
    attempt, by_scorer = trace.attempt.with_unknowns(), {score.scorer: score for score in trace.scores}
    preferred = [*(headline.scorer for headline in headline_of([trace.question])), *PREFERRED]
    score = next((by_scorer[name] for name in preferred if name in by_scorer), None)
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
        tokens=attempt.spent.tokens,
        model_calls=attempt.model_calls,
        seconds=measured(attempt.seconds, attempt.at),
        at=attempt.at,
        given_name=trace.given_name,
    )
