"""Cost of judging: who pays for a call, the bill of many calls, and the bill of a stored run with its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace
from msgspec.structs import replace as changed

from ragrounds.base.contracts import Entry, Journal, Model
from ragrounds.base.records import Call, Run, Score, Usage, Verdict
from ragrounds.base.spent import known_sum, total_spent
from ragrounds.evals.judges.attempts import AttemptJudge, judges_itself
from ragrounds.evals.judges.gate import JudgeGate, gated
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.ledger import store_judging_sums
from ragrounds.evals.store.store import Store
from ragrounds.models.model_names import other_models


class Bill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sum of calls. A value that is unknown for one call is unknown for the sum."""

    calls: int
    reused: int
    """Number of calls that the journal answered."""
    failed: int
    """Number of calls without a reply."""
    usage: Usage | None
    cost_paid: float | None
    """Dollars actually paid, now and by earlier processes that were interrupted before they had a bill."""
    cost_uncached: float | None
    """Dollars that the calls would have cost with an empty journal."""
    earlier: int = 0
    """Number of `reused` calls that earlier, interrupted processes had paid for."""
    cost_paid_earlier: float | None = 0.0
    """Part of `cost_paid` for the `earlier` calls."""
    other_models: tuple[str, ...] = ()
    """Remarks on replies that name other models than requested, or several for one."""


def bill(calls: Sequence[Call], earlier: Collection[str] = ()) -> Bill:
    """Return the bill of these calls; for `earlier` see :class:`ragrounds.evals.judges.bill.PayingJournal`."""
    earlier_calls = [call for call in calls if not call.cached and call.key in earlier]
    spent = total_spent(call.spent for call in calls)
    names_by_model: dict[str, Counter[str]] = {}
    for call in calls:
        if call.model:
            names_by_model.setdefault(call.actor, Counter())[call.model] += 1
    return Bill(
        calls=len(calls),
        reused=sum(call.cached for call in calls) + len(earlier_calls),
        failed=sum(bool(call.error) for call in calls),
        usage=spent.usage,
        cost_paid=spent.cost_paid,
        cost_uncached=spent.cost_uncached,
        earlier=len(earlier_calls),
        cost_paid_earlier=known_sum(call.cost_uncached for call in earlier_calls),
        other_models=tuple(other_models(names_by_model)),
    )


def paid_now(calls: Sequence[Call], earlier: Collection[str]) -> tuple[float | None, int | None]:
    """Return dollars and tokens (in and out) of the calls that this process made, for its budget; ``None`` if some are
    unknown."""
    spent = total_spent(call.spent for call in calls if not call.cached and call.key not in earlier)
    return spent.cost_paid, spent.tokens


T = TypeVar("T", bound=Struct)


class PayingJournal:
    """Journal whose calls carry the mark `payer` (contract: :class:`ragrounds.base.contracts.Journal`).

    Calls that a killed process paid for under this mark count as paid now, once, unless they are `settled`: keys
    (hexadecimal) of the calls that are already in a bill. `earlier` holds the keys of requested calls of this kind:
    paid for, but not made by this process. `recalled` holds keys of calls that were paid for once more (``fresh``) and
    are in no bill yet.
    """

    def __init__(
        self, journal: Journal, payer: bytes, settled: Collection[str] = (), recalled: Collection[str] = ()
    ) -> None:
        self._journal, self._payer = journal, payer
        self._settled, self._recalled = set(settled), set(recalled)
        self.earlier: set[str] = set()

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """Return the recorded response, or that of `make`, and a flag.

        The flag is true if nothing is paid now: the call is in a bill already and was not made again.
        """
        called = False

        async def make_and_note() -> T:
            """Make the call and note that this process made it."""
            nonlocal called
            called = True
            return await make()

        response, cached = await self._journal.once(replace(entry, payer=self._payer), make_and_note, kind)
        # A call that this process made was paid for now, whatever is in a bill: `fresh` repeats recorded calls.
        paid = called or entry.key in self._recalled
        cached = not paid and (cached or entry.key in self._settled)
        self._settled.add(entry.key)
        self._recalled.discard(entry.key)
        if not cached and not called:
            self.earlier.add(entry.key)
        return response, cached


class PanelAgreement(Struct, frozen=True, kw_only=True):
    """Agreement of the judges of a panel on a run."""

    judged: int
    """Number of judged items: answers, or statements of answers."""
    undecided: int
    """Number of judged items without a majority."""
    kappa: float | None
    """Fleiss' kappa over the items on which all judges gave a verdict; ``None`` if it is not defined."""
    alpha: float | None
    """Krippendorff's alpha, including missing verdicts; ``None`` if it is not defined."""


class JudgedRun(Bill, frozen=True, kw_only=True, omit_defaults=False):
    """Scores, verdicts and costs of judging a run."""

    run: str
    judges: tuple[str, ...]
    scorers: tuple[str, ...]
    attempts: int
    missing: int
    """Number of scores without a value that another try, or another judge, may give."""
    left: int
    """Number of answers that were not shown to a judge because a budget was used up; their scores are missing."""
    verdicts: tuple[Verdict, ...]
    """Every single verdict with its judge."""
    same_model: tuple[str, ...]
    """Judges that are also a model that wrote these answers: they may favour themselves."""
    inside: tuple[str, ...] = ()
    """Judges that are also the judge inside the agent, which selected these answers."""
    panel: PanelAgreement | None = None
    """Agreement of the panel, if the majority of several judges counts."""
    constant: dict[str, str] = {}
    """Judge → its only label, for judges that gave one label to two or more items. They do not separate answers, and
    agreement with them is not defined."""
    gates: tuple[JudgeGate, ...] = ()
    """Result of the probes of each judge."""
    unprobed: str = ""
    """Reason why there are no probes; empty if there are, or if judges of this kind have none."""
    withheld: bool = False
    """True if the probes withheld the values of the scores."""

    @property
    def noun(self) -> str:
        """Return the noun of what has a verdict of its own: answers, or their statements."""
        axes = {(verdict.question_id, verdict.axis) for verdict in self.verdicts}
        return "statement" if len(axes) > len({question_id for question_id, _ in axes}) else "answer"


def constant_judges(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return judge → label for judges that gave one label to everything they judged, two items or more."""
    labels_by_judge: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.outcome:
            labels_by_judge.setdefault(verdict.judge, []).append(verdict.outcome)
    return {judge: labels[0] for judge, labels in labels_by_judge.items() if len(labels) > 1 and len(set(labels)) == 1}


class JudgingResult(Struct, frozen=True, kw_only=True):
    """Scores and verdicts of one judge, or a panel, on a run's attempts or on its probes."""

    scores: tuple[Score, ...] = ()
    """Scores by the judge, or by the majority; missing if there is no verdict."""
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    panel: PanelAgreement | None = None
    gates: tuple[JudgeGate, ...] = ()
    unprobed: str = ""


def store_judged_run(
    store: Store,
    run: Run,
    attempt_judge: AttemptJudge,
    judges: Sequence[Model],
    judging_result: JudgingResult,
    left: Sequence[Score],
    *,
    code: str,
    attempts: int,
    earlier: Collection[str],
    replace: bool,
) -> JudgedRun:
    """Write the paid calls and, if `replace` is set, the scores, and return the bill of the run.

    Scores include the answers that were `left` without a verdict. `code` is the digest of everything that the scores
    depend on. For `earlier` see :class:`ragrounds.evals.judges.bill.PayingJournal`.
    """
    scores = gated(judging_result.scores, judging_result.gates)
    coded_scores = [changed(score, code=code) for score in (*scores, *left) if replace]
    store.add_scores(run, coded_scores, judging_result.calls, judging_payer(run))
    store_judging_sums(store, [run])
    names, agent_judge = tuple(judge.spec for judge in judges), (run.identity.get("models") or {}).get("judge")
    return JudgedRun(
        **asdict(bill(judging_result.calls, earlier)),
        run=run.id,
        judges=names,
        scorers=attempt_judge.scorers,
        attempts=attempts,
        missing=sum(score.value is None for score in scores),
        left=len({score.key for score in left}),
        verdicts=judging_result.verdicts,
        same_model=tuple(judge for judge in names if judges_itself(judge, writers(run))),
        inside=tuple(judge for judge in names if agent_judge and judges_itself(judge, [str(agent_judge)])),
        panel=judging_result.panel,
        gates=judging_result.gates,
        unprobed=judging_result.unprobed,
        withheld=scores != judging_result.scores,
    )


def writers(run: Run) -> list[str]:
    """Return the models that wrote a run's answers."""
    return [str(model) for role, model in (run.identity.get("models") or {}).items() if role != "judge"]
