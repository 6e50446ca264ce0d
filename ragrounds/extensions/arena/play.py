"""Playing an arena: the schedule chooses pairs, judges are asked, and every verdict is stored before the next choice.

To resume after a crash, the arena is played again from the start: the schedule is a pure function of seed and results.
Judgements that were stored, or whose calls are in the journal, are not requested again. :func:`estimate_play` estimates
calls and costs before any judge is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.base.contracts import Journal, Model
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Call, Question, Reply, Usage, blank
from ragrounds.base.spent import known_sum
from ragrounds.evals.engine.budget import BudgetStop, check_prices
from ragrounds.evals.engine.circuit_breaker import FailureCount
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.judges.bill import PayingJournal, paid_now
from ragrounds.evals.judges.runs import JudgeLimits
from ragrounds.evals.judges.verdict import FAILED, ask
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, JudgementDetail
from ragrounds.evals.store.journal import arena_payer
from ragrounds.extensions.arena.lineup import Lineup
from ragrounds.extensions.arena.pairs import show_pair
from ragrounds.extensions.arena.schedules import MatchCounts, Schedule, all_pairs, open_schedule, question_orders
from ragrounds.extensions.arena.verdicts import Match, combine_judgements, pair_seed
from ragrounds.prompts.loader import PromptFolder

_ANSWER = 1024
"""Tokens of a judge's window that are left for its reply."""
_PROMPT, _REPLY, _SAMPLE = 350, 200, 100
"""Assumed tokens of a judge's prompt without question and answers, and of its reply; number of questions whose tokens
are counted.
"""
# After _TRIAL matches, a share above _HOPELESS without any verdict ends the play.
_TRIAL, _HOPELESS = 20, 0.8


class FinishedMatch(Struct, frozen=True):
    """A match that has just ended, for a display."""

    match: Match
    judgements: tuple[ArenaJudgement, ...]


class PlayOptions(JudgeLimits, frozen=True, kw_only=True):
    """Options of an :class:`ArenaPlayer`. Dollars limit the arena over all commands, the rest limits this command."""

    listener: Callable[[FinishedMatch], None] = lambda finished: None
    """Called with every match that ended."""


DEFAULTS = PlayOptions()


class ArenaPlayer:
    """Player of one arena.

    Args:
        arena: settings of the arena.
        lineup: the contestants and their answers.
        judges: the models that :attr:`Arena.judges` names, in that order.
        arenas: where judgements are written.
        journal: where calls are recorded.
        options: limits and listener.

    Raises:
        UserError: dollars are limited and a judge has no known price.
    """

    def __init__(
        self,
        arena: Arena,
        lineup: Lineup,
        judges: Sequence[Model],
        arenas: ArenaStore,
        journal: Journal,
        options: PlayOptions = DEFAULTS,
    ) -> None:
        self._max_cost = options.budget.cost
        if self._max_cost is not None:
            check_prices(judges)
        self._arena, self._lineup, self._judges = arena, lineup, tuple(judges)
        self._arenas, self._prompts = arenas, PromptFolder()
        self._listener = options.listener
        self._spending = BudgetStop(msgspec.structs.replace(options.budget, cost=None))
        """Tokens and seconds of this command. Dollars are counted over the whole arena."""
        self._failures = FailureCount(options.fail_after, "judgements")
        self._at_once = max(1, options.at_once)
        self._slots = asyncio.Semaphore(self._at_once)
        self._number = arenas.add(arena)
        stored = arenas.judgements(self._number)
        self._stored_judgements = {judgement.key: judgement for judgement in stored if "!" not in judgement.outcomes}
        recorded_calls = arenas.call_keys(self._number) if stored else set()
        self._journal = PayingJournal(journal, arena_payer(arena.fingerprint), recorded_calls)
        self._paid_before: dict[tuple[int, str, int, int, int], tuple[Call, ...]] = {}
        """Paid calls of judgements that failed and are made again, by judgement key."""
        if len(self._stored_judgements) < len(stored):
            for judgement, detail in arenas.details(self._number, missing=True):
                if judgement.key not in self._stored_judgements:
                    paid = tuple(call for call in detail.calls if not call.cached and not call.error)
                    self._paid_before[judgement.key] = paid
        self.cost_paid = sum(judgement.cost_paid or 0.0 for judgement in stored)
        """Dollars paid for this arena so far, without calls of unknown price."""
        size, axes = len(arena.systems), len(arena.axes)
        self._wins = np.zeros((axes, size, size))
        self._ties = np.zeros((axes, size, size))
        self._played = np.zeros(size * (size - 1) // 2, dtype=np.int64)
        self._finished = self._undecided = 0

    async def play(self, schedule: Schedule) -> str:
        """Play until the schedule or the budget ends, and return the reason for the end.

        Raises:
            StopRun: the judge cannot be asked (wrong key, server gone, store full). Finished matches are kept.
        """
        orders = question_orders(len(self._arena.systems), len(self._lineup.questions), self._arena.seed)
        number = 0
        while True:
            counts = MatchCounts(self._wins, self._ties, self._played)
            batch = schedule.batch(counts)
            if not batch:
                return schedule.reason(counts)
            queued: list[tuple[int, int, Question]] = []
            for pair in batch:
                queued.append((number, pair, self._lineup.questions[orders[pair, self._played[pair]]]))
                self._played[pair] += 1
                number += 1
            left = await self._play_batch(queued)
            if left and (reason := self._failures.reached()):
                return f"{reason}; {left:,} matches of the schedule were not played, and the same command resumes"
            if self._hopeless():
                return (
                    f"{self._undecided:,} of the first {self._finished:,} matches have no verdict on any axis: these "
                    "judges are asked no further"
                )
            if left:
                return f"{self._limit_reached()}; {left:,} matches of the schedule were not played"

    async def _play_batch(self, queued: Iterable[tuple[int, int, Question]]) -> int:
        """Play these matches, and return how many were not played because a limit was reached."""
        queue = list(reversed(list(queued)))
        ends: list[BaseException] = []

        async def work() -> None:
            while queue and not ends and not self._limit_reached() and not self._hopeless():
                try:
                    await self._match(*queue.pop())
                except UserError as error:
                    ends.append(error)

        with interruptible(ends):
            async with asyncio.TaskGroup() as group:
                for _ in range(self._at_once):
                    group.create_task(work())
        if ends:
            raise ends[0]
        return len(queue)

    def _limit_reached(self) -> str:
        """Return which limit is reached, or an empty string if none is."""
        if self._max_cost is not None and self.cost_paid >= self._max_cost:
            return f"the budget of ${self._max_cost:g} is spent"
        return self._failures.reached() or self._spending.reached()

    def _hopeless(self) -> bool:
        """Return True if hardly any match has a verdict. Such a judge must not be asked until the questions run out."""
        return self._finished >= _TRIAL and self._undecided > _HOPELESS * self._finished

    async def _match(self, number: int, pair: int, question: Question) -> None:
        first, second = (int(members[pair]) for members in all_pairs(len(self._arena.systems)))
        # The first order is chosen at random. If only one order is played, this choice matters.
        swap = np.random.default_rng([self._arena.seed, 3, number]).integers(2) == 1
        orders = [(second, first), (first, second)] if swap else [(first, second), (second, first)]
        if self._arena.orders == "one":
            orders = orders[:1]
        judgements = await asyncio.gather(
            *(
                self._judgement(number, judge, question, order, part)
                for judge in range(len(self._judges))
                for order in orders
                for part in range(len(self._arena.parts))
            )
        )
        match = combine_judgements(self._arena, judgements)[0]
        for axis in range(len(self._arena.axes)):
            outcome = match.panel(axis)
            if outcome == "tie":
                self._ties[axis, first, second] += 1
                self._ties[axis, second, first] += 1
            elif outcome is not None:
                winner, loser = (first, second) if outcome == "first" else (second, first)
                self._wins[axis, winner, loser] += 1
        self._finished += 1
        self._undecided += all(match.panel(axis) is None for axis in range(len(self._arena.axes)))
        self._listener(FinishedMatch(match, tuple(judgements)))

    async def _judgement(
        self, number: int, judge: int, question: Question, order: tuple[int, int], part: int
    ) -> ArenaJudgement:
        stored = self._stored_judgements.get((judge, question.id, *order, part))
        if stored is not None:
            return stored
        texts = tuple(self._lineup.answers[system][question.id].strip() for system in order)
        axes = self._arena.parts[part]
        unjudged = ArenaJudgement(
            judge=judge,
            question_id=question.id,
            first=order[0],
            second=order[1],
            part=part,
            number=number,
            outcomes="",
            usage=Usage(),
        )
        automatic = _without_judge(texts[0], texts[1])
        if automatic is not None:
            how, letter = automatic
            judgement = msgspec.structs.replace(unjudged, outcomes=letter * len(axes), how=how)
            detail = JudgementDetail({}, ())
        else:
            judgement, detail = await self._ask(unjudged, question, (texts[0], texts[1]))
        await self._arenas.write(self._number, judgement, detail)
        return judgement

    async def _ask(
        self, unjudged: ArenaJudgement, question: Question, texts: tuple[str, str]
    ) -> tuple[ArenaJudgement, JudgementDetail]:
        model, axes = self._judges[unjudged.judge], self._arena.parts[unjudged.part]
        fitted = _fitted(model, question.text, texts)
        pair_prompt = show_pair(
            self._prompts,
            question.text,
            fitted,
            {axis.name: axis.text(question.language) for axis in axes},
            pair_seed(self._arena.seed, question.id, unjudged.first, unjudged.second),
            question.language,
        )
        async with self._slots:
            verdict = await ask(model, self._journal, pair_prompt.messages, pair_prompt.form, tries=self._arena.tries)
        letters = {"first": "1", "second": "2", "tie": "="}
        outcomes = "".join(
            letters[pair_prompt.outcome(verdict.values[axis.name])]
            if axis.name in verdict.values
            else "!"
            if verdict.reasons.get(axis.name) == FAILED
            else "?"
            for axis in axes
        )
        self.cost_paid += verdict.spent.cost_paid or 0.0
        error = next((call.error for call in verdict.calls if call.error), "")
        self._failures.count(model.spec, model.spec, "!" in outcomes, error)
        self._spending.count(*paid_now(verdict.calls, self._journal.earlier))
        if paid_before := self._paid_before.get(unjudged.key, ()):
            paid_keys = {call.key for call in paid_before}
            new_calls = (call for call in verdict.calls if not call.cached or call.key not in paid_keys)
            verdict = msgspec.structs.replace(verdict, calls=(*paid_before, *new_calls))
        spent = verdict.spent
        judgement = msgspec.structs.replace(
            unjudged,
            outcomes=outcomes,
            how="asked" if fitted == texts else "cut",
            calls=spent.calls,
            usage=spent.usage,
            cost_paid=spent.cost_paid,
            cost_uncached=spent.cost_uncached,
        )
        return judgement, JudgementDetail(verdict.reasons, verdict.calls, verdict.extra)


def _without_judge(first: str, second: str) -> tuple[str, str] | None:
    """Return how a match is decided without a judge, and its letter; ``None`` if a judge is needed.

    An empty answer loses, equal texts tie.
    """
    if blank(first) or blank(second):
        return "empty", "=" if blank(first) and blank(second) else "2" if blank(first) else "1"
    return ("identical", "=") if first == second else None


def _fitted(model: Model, question: str, texts: tuple[str, str]) -> tuple[str, str]:
    """Return the answers. If they do not fit into the judge's window, each is cut to half of the available tokens."""
    if model.window is None:
        return texts
    available = model.window - 2 * _ANSWER - model.count(question)
    if available <= 0:
        raise StopRun(
            f"The judge {model.spec} has a window of {model.window} tokens, too few for a question with two answers."
        )
    if sum(model.count(text) for text in texts) <= available:
        return texts
    return model.cut(texts[0], available // 2), model.cut(texts[1], available // 2)


class PlayEstimate(Struct, frozen=True, kw_only=True):
    """Matches, calls, tokens and dollars that an arena takes with one way of asking."""

    calls: str
    """``together`` or ``apart``, see :attr:`Arena.calls`."""
    matches: int
    at_most: bool
    """True if the schedule may end before."""
    judge_calls: int
    input: int
    cost_uncached: float | None
    """Dollars with an empty journal; ``None`` if a price is unknown."""


def estimate_play(arena: Arena, lineup: Lineup, judges: Sequence[Model]) -> tuple[PlayEstimate, ...]:
    """Estimate both ways of asking, assuming that every match needs a judge and every reply can be read."""
    size = len(arena.systems)
    matches = _matches(arena, len(lineup.questions))
    # The tokens of a judge's prompt, from a sample of questions and answers.
    questions = lineup.questions[:_SAMPLE]
    lengths = [judges[0].count(question.text) for question in questions]
    answers = [judges[0].count(texts[question.id]) for texts in lineup.answers for question in questions]
    tokens = _PROMPT + int(np.mean(lengths) + 2 * np.mean(answers))
    estimates = []
    for calls in ("together", "apart"):
        parts = 1 if calls == "together" else len(arena.axes)
        calls_per_judge = matches * parts * (2 if arena.orders == "both" else 1)
        usage = Usage(input=calls_per_judge * tokens, output=calls_per_judge * _REPLY)
        prices = [judge.price(Reply(text="", usage=usage)) for judge in judges]
        estimates.append(
            PlayEstimate(
                calls=calls,
                matches=matches,
                at_most=arena.schedule == "adaptive" and size > 1,
                judge_calls=calls_per_judge * len(judges),
                input=calls_per_judge * tokens * len(judges),
                cost_uncached=known_sum(prices),
            )
        )
    return tuple(estimates)


def _matches(arena: Arena, questions: int) -> int:
    size = len(arena.systems)
    pairs = size * (size - 1) // 2
    if arena.schedule == "adaptive":
        return pairs * questions
    schedule = open_schedule(arena.schedule, size, questions, seed=arena.seed, least=arena.least)
    zeros = np.zeros((1, size, size))
    return len(schedule.batch(MatchCounts(zeros, zeros, np.zeros(pairs, dtype=np.int64))))
