"""What judging takes: who pays for a call, the bill of many, and the bill of a stored run whose scores are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace
from msgspec.structs import replace as changed

from ragrounds.base.contracts import Entry, Journal, Model
from ragrounds.base.records import Call, Run, Score, Usage, Verdict
from ragrounds.evals.judges.attempts import AttemptJudge, judges_itself
from ragrounds.evals.judges.gate import JudgeGate, gated
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.store import Store
from ragrounds.models.model_names import other_models


class Bill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sum of calls. What is not known of one of them is not known of the sum."""

    calls: int
    reused: int
    """Of these, answered from the journal."""
    failed: int
    """Of these, without a reply."""
    usage: Usage | None
    cost_paid: float | None
    """Dollars really paid: now, and by earlier processes that were broken off before they had a bill."""
    cost_uncached: float | None
    """Dollars without any cache: as if nothing had been in the journal."""
    earlier: int = 0
    """Of the calls that the journal answered, paid for by earlier processes that were broken off."""
    cost_paid_earlier: float | None = 0.0
    """Of the dollars paid, those of these calls."""
    other_models: tuple[str, ...] = ()
    """What is to be said where replies name other models than were asked, or several for one."""


def bill(calls: Sequence[Call], earlier: Collection[str] = ()) -> Bill:
    """Add up calls; `earlier` as in :class:`ragrounds.evals.judges.bill.PayingJournal`."""
    carried = [call for call in calls if not call.cached and call.key in earlier]
    used = [call.usage for call in calls]
    known = [usage for usage in used if usage is not None]
    return Bill(
        calls=len(calls),
        reused=sum(call.cached for call in calls) + len(carried),
        failed=sum(bool(call.error) for call in calls),
        usage=sum(known, start=Usage()) if len(known) == len(used) else None,
        cost_paid=_sum([0.0 if call.cached else call.cost_uncached for call in calls]),
        cost_uncached=_sum([call.cost_uncached for call in calls]),
        earlier=len(carried),
        cost_paid_earlier=_sum([call.cost_uncached for call in carried]),
        other_models=_other_models(calls),
    )


def _other_models(calls: Sequence[Call]) -> tuple[str, ...]:
    named: dict[str, Counter[str]] = {}
    for call in calls:
        if call.model:
            named.setdefault(call.actor, Counter())[call.model] += 1
    return tuple(other_models(named))


def paid_now(calls: Sequence[Call], earlier: Collection[str]) -> tuple[float | None, int | None]:
    """Dollars, and tokens in and out, of the calls that this process made, for its budget; ``None``: not all known."""
    own = [call for call in calls if not call.cached and call.key not in earlier]
    used = [call.usage for call in own]
    known = [usage.input + usage.output for usage in used if usage is not None]
    return _sum([call.cost_uncached for call in own]), sum(known) if len(known) == len(used) else None


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


T = TypeVar("T", bound=Struct)


class PayingJournal:
    """A journal whose calls carry the mark `payer` (contract: :class:`ragrounds.base.contracts.Journal`).

    What a killed process paid under this mark counts as paid now, once, unless it is `settled`: keys (hexadecimal) of
    the calls that already stand in a bill. `earlier` are the keys of such calls that were asked for: paid for, but not
    made by this process. `recalled` are keys of calls that it paid for once more (``fresh``), and that no
    bill holds yet.
    """

    def __init__(
        self, journal: Journal, payer: bytes, settled: Collection[str] = (), recalled: Collection[str] = ()
    ) -> None:
        self._journal, self._payer = journal, payer
        self._settled, self._recalled = set(settled), set(recalled)
        self.earlier: set[str] = set()

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The recorded response, or that of `make`; the flag is true where nobody pays now: a bill holds the call
        already, and it was not made again."""
        called = False

        async def making() -> T:
            """Remember that this process made the call."""
            nonlocal called
            called = True
            return await make()

        response, cached = await self._journal.once(replace(entry, payer=self._payer), making, kind)
        # A call that this process made was paid for now, whatever stands in a bill: `fresh` makes recorded calls anew.
        paid = called or entry.key in self._recalled
        cached = not paid and (cached or entry.key in self._settled)
        self._settled.add(entry.key)
        self._recalled.discard(entry.key)
        if not cached and not called:
            self.earlier.add(entry.key)
        return response, cached


class PanelAgreement(Struct, frozen=True, kw_only=True):
    """How far the judges of a panel agree on a run."""

    judged: int
    """Things that were put to the judges: answers, or statements of answers."""
    undecided: int
    """Of these, without a majority."""
    kappa: float | None
    """Fleiss' kappa, over what all of them gave a verdict on; ``None`` where it is not defined."""
    alpha: float | None
    """Krippendorff's alpha, missing verdicts included; ``None`` where it is not defined."""


class JudgedRun(Bill, frozen=True, kw_only=True, omit_defaults=False):
    """What judging a run gave and took."""

    run: str
    judges: tuple[str, ...]
    scorers: tuple[str, ...]
    attempts: int
    missing: int
    """Scores without a value that another try, or another judge, may give."""
    left: int
    """Answers that were not put to a judge, because a budget was used up: their scores are missing."""
    verdicts: tuple[Verdict, ...]
    """Every single one, with its judge."""
    same_model: tuple[str, ...]
    """Judges that are a model that wrote these answers: they may favour themselves."""
    inside: tuple[str, ...] = ()
    """Judges that are the judge inside the agent: these answers were chosen by it."""
    panel: PanelAgreement | None = None
    """Where the majority of several judges counts."""
    constant: dict[str, str] = {}
    """Judges that gave one label to everything, two things or more → that label: they tell no answer from another, and
    no agreement with them is defined."""
    gates: tuple[JudgeGate, ...] = ()
    """What probes found of each judge."""
    unprobed: str = ""
    """Why there are none; empty: there are, or judges of this kind have none."""
    withheld: bool = False
    """Whether the scores have no values for this."""


def constant_judges(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Judges that gave one label to everything they judged, two things or more → that label."""
    given: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.outcome:
            given.setdefault(verdict.judge, []).append(verdict.outcome)
    return {judge: said[0] for judge, said in given.items() if len(said) > 1 and len(set(said)) == 1}


class Judged(Struct, frozen=True, kw_only=True):
    """What one judge, or a panel, made of a run's attempts, or of its probes."""

    scores: tuple[Score, ...] = ()
    """By the judge, or by the majority; missing where there is none."""
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    panel: PanelAgreement | None = None
    gates: tuple[JudgeGate, ...] = ()
    unprobed: str = ""


def store_judged_run(
    store: Store,
    run: Run,
    by: AttemptJudge,
    judges: Sequence[Model],
    made: Judged,
    left: Sequence[Score],
    *,
    code: str,
    attempts: int,
    earlier: Collection[str],
    replace: bool,
) -> JudgedRun:
    """Write what was paid for and, to `replace` those in the store, the scores, also of answers that were `left`
    without a verdict; add up what they took (`earlier`: :class:`ragrounds.evals.judges.bill.PayingJournal`). `code` is
    the digest of what the scores rest on."""
    scores = gated(made.scores, made.gates)
    written = [changed(one, code=code) for one in (*scores, *left) if replace]
    store.add_scores(run, written, made.calls, judging_payer(run))
    names, inner = tuple(judge.spec for judge in judges), (run.identity.get("models") or {}).get("judge")
    return JudgedRun(
        **asdict(bill(made.calls, earlier)),
        run=run.id,
        judges=names,
        scorers=by.scorers,
        attempts=attempts,
        missing=sum(score.value is None for score in scores),
        left=count_answers(left),
        verdicts=made.verdicts,
        same_model=tuple(judge for judge in names if judges_itself(judge, writers(run))),
        inside=tuple(judge for judge in names if inner and judges_itself(judge, [str(inner)])),
        panel=made.panel,
        gates=made.gates,
        unprobed=made.unprobed,
        withheld=scores != made.scores,
    )


def count_answers(scores: Iterable[Score]) -> int:
    """How many answers these scores are of."""
    return len({(score.question_id, score.epoch) for score in scores})


def writers(run: Run) -> list[str]:
    """The models that wrote a run's answers."""
    return [str(model) for role, model in (run.identity.get("models") or {}).items() if role != "judge"]
