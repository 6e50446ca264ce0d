"""Playing an arena: the schedule chooses, judges are asked, every verdict is on the disk before the next choice.

To resume after a crash is to play again from the start: the schedule is a pure function of seed and results, and what
was judged before is not asked again, whether the judgement was written or only the call (the journal has it).
:func:`estimate_play` says what that will take before anybody is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Call, Question, Reply, Usage, blank
from ragrounds.evals.arena.lineup import Lineup
from ragrounds.evals.arena.schedules import MatchCounts, Schedule, all_pairs, open_schedule, question_orders
from ragrounds.evals.arena.verdicts import Match, combine_judgements, pair_seed
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.circuit_breaker import FailureCount, FailureLimit
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.judges.bill import PayingJournal, paid_now
from ragrounds.evals.judges.pairs import show_pair
from ragrounds.evals.judges.verdict import FAILED, ask
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, JudgementDetail
from ragrounds.evals.store.journal import arena_payer

_ANSWER = 1024
"""Tokens of a judge's window that are left for its reply."""
_PROMPT, _REPLY, _SAMPLE = 350, 200, 100
"""Tokens of a judge's prompt without question and answers, and of its reply, as assumed; answers that are counted."""
_TRIAL, _HOPELESS = 20, 0.8
NEVER_FAILING = FailureLimit()
"""After so many matches, a larger share of them without any verdict ends the play."""


class FinishedMatch(Struct, frozen=True):
    """A match that has just ended, for a display."""

    match: Match
    judged: tuple[ArenaJudgement, ...]


MatchListener = Callable[[FinishedMatch], None]


class ArenaPlayer:
    """Plays one arena.

    Args:
        arena: its settings.
        lineup: who plays, on what.
        judges: the models that :attr:`Arena.judges` names, in that order.
        arenas: where judgements are written.
        journal: where calls are recorded.
        prompts: the judges' prompts.
        concurrency: matches and calls in flight.
        max_cost: dollars that this arena may cost in all, over all commands.
        max_tokens: tokens that this command may use.
        max_seconds: seconds that this command may take.
        fail_after: how many judgements of a judge may fail in this command.
        listener: is given every match that ended.

    Raises:
        UserError: `max_cost`, and a judge without a known price.
    """

    def __init__(
        self,
        arena: Arena,
        lineup: Lineup,
        judges: Sequence[Model],
        arenas: ArenaStore,
        journal: Journal,
        prompts: Prompts,
        *,
        concurrency: int = 16,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        fail_after: FailureLimit = NEVER_FAILING,
        listener: MatchListener = lambda finished: None,
    ) -> None:
        if max_cost is not None:
            _check_prices(judges)
        self._arena, self._lineup, self._judges = arena, lineup, tuple(judges)
        self._arenas, self._prompts = arenas, prompts
        self._listener = listener
        self._max_cost = max_cost
        self._spending = BudgetStop(Budget(tokens=max_tokens, seconds=max_seconds))
        """Of this command; dollars are counted over the whole arena."""
        self._failures = FailureCount(fail_after, "judgements")
        self._slots = asyncio.Semaphore(max(1, concurrency))
        self._at_once = max(1, concurrency)
        self._number = arenas.add(arena)
        before = arenas.judgements(self._number)
        self._known = {one.key: one for one in before if "!" not in one.outcomes}
        settled = arenas.call_keys(self._number) if before else set()
        self._journal = PayingJournal(journal, arena_payer(arena.fingerprint), settled)
        self._paid_before: dict[tuple[int, str, int, int, int], tuple[Call, ...]] = {}
        """Of judgements that are made again: the calls that were paid for."""
        if len(self._known) < len(before):
            for one, detail in arenas.details(self._number, missing=True):
                if one.key not in self._known:
                    paid = tuple(call for call in detail.calls if not call.cached and not call.error)
                    self._paid_before[one.key] = paid
        self.cost_paid = sum(one.cost_paid or 0.0 for one in before)
        """Dollars paid for this arena so far; calls without a known price are not in it."""
        size, axes = len(arena.systems), len(arena.axes)
        self._wins = np.zeros((axes, size, size))
        self._ties = np.zeros((axes, size, size))
        self._played = np.zeros(size * (size - 1) // 2, dtype=np.int64)
        self._finished = self._mute = 0

    async def play(self, schedule: Schedule) -> str:
        """Play until the schedule or the budget ends; says which of them did, and why.

        Raises:
            StopRun: the judge cannot be asked (wrong key, server gone, store full); what is done is kept.
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
            if left and self._failures.reached:
                return (
                    f"{self._failures.reached}; {left:,} matches of the schedule were not played, and the same command "
                    "resumes"
                )
            if self._hopeless():
                return (
                    f"{self._mute:,} of the first {self._finished:,} matches have no verdict on any axis: these "
                    "judges are asked no further"
                )
            if left:
                return f"{self._limit_reached()}; {left:,} matches of the schedule were not played"

    async def _play_batch(self, queued: Iterable[tuple[int, int, Question]]) -> int:
        """Play these matches; says how many were not played because a limit was reached."""
        queue = list(reversed(list(queued)))
        ends: list[BaseException] = []

        async def work() -> None:
            while queue and not ends and not self._limit_reached() and not self._hopeless():
                try:
                    await self._match(*queue.pop())
                except UserError as error:
                    ends.append(error)

        with interruptible(ends):
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._at_once):
                        group.create_task(work())
            except asyncio.CancelledError:
                if not ends:  # not by the second Ctrl-C
                    raise
        if ends:
            raise ends[0]
        return len(queue)

    def _limit_reached(self) -> str:
        """Which limit is reached; empty: none."""
        if self._max_cost is not None and self.cost_paid >= self._max_cost:
            return f"the budget of ${self._max_cost:g} is spent"
        return self._failures.reached or self._spending.reached()

    def _hopeless(self) -> bool:
        """Whether hardly any match has a verdict: such a judge must not be asked until the questions run out."""
        return self._finished >= _TRIAL and self._mute > _HOPELESS * self._finished

    async def _match(self, number: int, pair: int, question: Question) -> None:
        first, second = (int(members[pair]) for members in all_pairs(len(self._arena.systems)))
        # Which order is asked first is drawn; where only one is asked, this is the draw that matters.
        swap = np.random.default_rng([self._arena.seed, 3, number]).integers(2) == 1
        ways = [(second, first), (first, second)] if swap else [(first, second), (second, first)]
        if self._arena.orders == "one":
            ways = ways[:1]
        judged = await asyncio.gather(
            *(
                self._judgement(number, judge, question, way, part)
                for judge in range(len(self._judges))
                for way in ways
                for part in range(len(self._arena.parts))
            )
        )
        match = combine_judgements(self._arena, judged)[0]
        for axis in range(len(self._arena.axes)):
            outcome = match.panel(axis)
            if outcome == "tie":
                self._ties[axis, first, second] += 1
                self._ties[axis, second, first] += 1
            elif outcome is not None:
                winner, loser = (first, second) if outcome == "first" else (second, first)
                self._wins[axis, winner, loser] += 1
        self._finished += 1
        self._mute += all(match.panel(axis) is None for axis in range(len(self._arena.axes)))
        self._listener(FinishedMatch(match, tuple(judged)))

    async def _judgement(
        self, number: int, judge: int, question: Question, way: tuple[int, int], part: int
    ) -> ArenaJudgement:
        known = self._known.get((judge, question.id, *way, part))
        if known is not None:
            return known
        texts = tuple(self._lineup.answers[system][question.id].strip() for system in way)
        axes = self._arena.parts[part]
        unjudged = ArenaJudgement(
            judge=judge,
            question_id=question.id,
            first=way[0],
            second=way[1],
            part=part,
            number=number,
            outcomes="",
            usage=Usage(),
        )
        plain = _without_judge(texts[0], texts[1])
        if plain is not None:
            how, letter = plain
            judged = msgspec.structs.replace(unjudged, outcomes=letter * len(axes), how=how)
            detail = JudgementDetail({}, ())
        else:
            judged, detail = await self._ask(unjudged, question, (texts[0], texts[1]))
        await self._arenas.write(self._number, judged, detail)
        return judged

    async def _ask(
        self, blank: ArenaJudgement, question: Question, texts: tuple[str, str]
    ) -> tuple[ArenaJudgement, JudgementDetail]:
        model, axes = self._judges[blank.judge], self._arena.parts[blank.part]
        fitted = _fitted(model, question.text, texts)
        shown = show_pair(
            self._prompts,
            question.text,
            fitted,
            {axis.name: axis.text(question.language) for axis in axes},
            pair_seed(self._arena.seed, question.id, blank.first, blank.second),
            question.language,
        )
        async with self._slots:
            found = await ask(model, self._journal, shown.messages, shown.form, tries=self._arena.tries)
        letters = {"first": "1", "second": "2", "tie": "="}
        outcomes = "".join(
            letters[shown.outcome(found.values[axis.name])]
            if axis.name in found.values
            else "!"
            if found.reasons.get(axis.name) == FAILED
            else "?"
            for axis in axes
        )
        self.cost_paid += found.cost_paid or 0.0
        error = next((call.error for call in found.calls if call.error), "")
        self._failures.count(model.spec, model.spec, "!" in outcomes, error)
        self._spending.count(*paid_now(found.calls, self._journal.earlier))
        if before := self._paid_before.get(blank.key, ()):
            again = {call.key for call in before}
            left = (call for call in found.calls if not call.cached or call.key not in again)
            found = msgspec.structs.replace(found, calls=(*before, *left))
        judged = msgspec.structs.replace(
            blank,
            outcomes=outcomes,
            how="asked" if fitted == texts else "cut",
            calls=len(found.calls),
            usage=found.usage,
            cost_paid=found.cost_paid,
            cost_uncached=found.cost_uncached,
        )
        return judged, JudgementDetail(found.reasons, found.calls, found.extra)


def _without_judge(first: str, second: str) -> tuple[str, str] | None:
    """How the match is decided and its letter, where no judge is needed: an empty answer loses, equal texts tie."""
    if blank(first) or blank(second):
        return "empty", "=" if blank(first) and blank(second) else "2" if blank(first) else "1"
    return ("identical", "=") if first == second else None


def _fitted(model: Model, question: str, texts: tuple[str, str]) -> tuple[str, str]:
    """The answers, each cut to half of the room in the judge's window where they do not fit."""
    if model.window is None:
        return texts
    room = model.window - 2 * _ANSWER - model.count(question)
    if room <= 0:
        raise StopRun(
            f"The judge {model.spec} has a window of {model.window} tokens, too few for a question with two answers."
        )
    if sum(model.count(text) for text in texts) <= room:
        return texts
    return model.cut(texts[0], room // 2), model.cut(texts[1], room // 2)


def _check_prices(judges: Sequence[Model]) -> None:
    for judge in judges:
        if judge.price(Reply(text="", usage=Usage(1, 1))) is None:
            raise UserError(
                f"A limit on cost needs a price for the judge {judge.spec}, and none is known. Give one: "
                "MODEL[price_input=…,price_output=…] in dollars per million tokens, or leave --max-cost out."
            )


class PlayEstimate(Struct, frozen=True, kw_only=True):
    """What an arena takes with one way of asking."""

    calls: str
    """``together`` or ``apart``, see :attr:`Arena.calls`."""
    matches: int
    at_most: bool
    """The schedule may end before."""
    judge_calls: int
    input: int
    cost_uncached: float | None
    """Dollars with an empty journal; ``None``: no known price."""


def estimate_play(arena: Arena, lineup: Lineup, judges: Sequence[Model]) -> tuple[PlayEstimate, ...]:
    """What both ways of asking take, if every match needs a judge and every reply can be read."""
    size = len(arena.systems)
    matches = _matches(arena, len(lineup.questions))
    tokens = _tokens(lineup, judges[0])
    found = []
    for calls in ("together", "apart"):
        parts = 1 if calls == "together" else len(arena.axes)
        each = matches * parts * (2 if arena.orders == "both" else 1)
        usage = Usage(input=each * tokens, output=each * _REPLY)
        prices = [judge.price(Reply(text="", usage=usage)) for judge in judges]
        known = [price for price in prices if price is not None]
        found.append(
            PlayEstimate(
                calls=calls,
                matches=matches,
                at_most=arena.schedule == "adaptive" and size > 1,
                judge_calls=each * len(judges),
                input=each * tokens * len(judges),
                cost_uncached=sum(known) if len(known) == len(prices) else None,
            )
        )
    return tuple(found)


def _matches(arena: Arena, questions: int) -> int:
    size = len(arena.systems)
    pairs = size * (size - 1) // 2
    if arena.schedule == "adaptive":
        return pairs * questions
    schedule = open_schedule(arena.schedule, size, questions, seed=arena.seed, least=arena.least)
    zeros = np.zeros((1, size, size))
    return len(schedule.batch(MatchCounts(zeros, zeros, np.zeros(pairs, dtype=np.int64))))


def _tokens(lineup: Lineup, judge: Model) -> int:
    """Tokens of a judge's prompt, by a sample of questions and answers."""
    questions = lineup.questions[:_SAMPLE]
    lengths = [judge.count(question.text) for question in questions]
    answers = [judge.count(texts[question.id]) for texts in lineup.answers for question in questions]
    return _PROMPT + int(np.mean(lengths) + 2 * np.mean(answers))
