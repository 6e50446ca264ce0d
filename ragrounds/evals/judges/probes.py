"""Probes of a judge, made from the run that it judges: does it read the answers?

A few answers are shown to the judge in changed forms (:mod:`ragrounds.evals.judges.probe_texts`), through the journal:
probes are stored, resumed, and free when they are repeated. Each answer is shown again unchanged (as another
occurrence: any difference is the judge's own noise), and with the allowed labels in the reverse order. Instead of the
answer, the judge is then shown the reference itself, which is right, texts that are wrong by construction, and a wrong
text that ends with a verdict in its own favour.

The tests are declared beforehand. An able judge passes at least the share ``least`` of each kind of probe. Scores are
withheld if so many failures would have a chance of at most 0.5 % with an able judge: in all probes of known verdict
together, or in any kind, for which 0.5 % is divided by the number of kinds. Everything between is undecided and
withholds nothing. By default probes take at most a tenth of the judging calls. They are made in two steps: all kinds on
a few answers (those of the judge's own noise on every second one), then the kinds that failed on more answers. The
second step does not raise the chance of a false alarm, since the test of a kind always counts all of its replies, and
the test of all kinds together counts those of the first step alone.

The replies are keyed by judge, prompt and text. So no probe counts for another judge or another wording, and a stored
run's noise is read again from its journal without asking a model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import comb
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.records import Attempt, Call, Gold, Question, Run, Verdict
from ragrounds.evals.judges.attempts import JudgedAnswer, JudgeTask, LabelJudge, judge_tasks, unreadable
from ragrounds.evals.judges.bill import JudgingResult
from ragrounds.evals.judges.gate import LEAST, JudgeGate, Probing
from ragrounds.evals.judges.probe_texts import PROBES, WRONG, ProbeItem, planned, subjects_of
from ragrounds.evals.judges.recorded import RecordedJudge, ScoreJudges
from ragrounds.evals.judges.runs import BudgetAdmission as Admission
from ragrounds.evals.judges.runs import Key
from ragrounds.evals.judges.verdict import ask
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats.estimates import group_difference, stratified_mean
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.stats.paired import binomial_p
from ragrounds.evals.store.store import Store

MOST, FEWEST, SHARE = 12, 6, 0.1
"""Largest number of answers to which all probes are made by default, smallest number of answers whose recorded probes
count for another run of the command, and the share of the judging calls that probes may take by default."""
_FIRST, _MORE = 2, 6
"""Smallest number of answers of the first step, and number of answers that the second step adds."""
LEVEL = 0.005
"""Largest chance that an able judge is withheld, by all probes together and by all kinds together."""
_DOUBT = 0.1
"""Chance of so many failures up to which a kind that is not withheld is called undecided."""
_HALVED = ("again", "turned")
"""Probes of the judge's own noise, made to half of the first answers."""
_WORDS = {
    "again": "says the same when it is asked again",
    "turned": "says the same when the labels are named in the other order",
    "reference": "calls the reference itself right",
    "exchanged": "calls another conclusion than the reference's wrong",
    "shuffled": "calls an answer to another question wrong",
    "long": "calls a long text on other questions wrong",
    "empty": "calls an empty answer wrong",
    "planted": "is not led by a verdict planted in a wrong answer",
    "readable": "gives a verdict that can be read",
}
_AGAIN = 1000
"""Occurrence number of repeated questions, apart from those of a verdict that was requested several times."""
_LOOKED_AT = 60
"""Number of answers that are looked for among recorded probes."""
_DRIFT = 0.05
"""P value up to which changes in one direction count as a drift."""
_CLEAR = 0.5
"""Difference in the share of good verdicts from which a judge counts as deciding by the kind of text."""


Outcome = tuple[str, bool]
"""Question, and whether the judge passes a probe of it."""
Asked = tuple[ProbeItem, tuple[str, ...]]
"""Item, and the probes of it that are made in one step. The reply to ``main`` is in the journal."""
ALL_PROBES = "all"
"""Name of the test of all probes of known verdict together."""


class _Reply(NamedTuple):
    """Verdict of a judge on a probe."""

    item: ProbeItem
    probe: str
    label: str
    replies: int
    step: int = 1
    """Step in which it was asked; 1 if that is not known."""


class Prober:
    """Judge of probes: shows the probes of answers to a judge (contract:
    :class:`ragrounds.evals.judges.attempts.AttemptJudge`)."""

    scorers: tuple[str, ...] = ()
    code = ""

    def __init__(self, method: LabelMethod) -> None:
        self._method = method
        self.asked: dict[tuple[str, int], Asked] = {}
        """Question and epoch → what is asked next."""
        self.step = 1
        self.replies: dict[str, list[_Reply]] = defaultdict(list)
        """Judge → its replies."""

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask the judge about the probes of an answer that are asked next."""
        (item, probes), calls = self.asked[question.id, attempt.epoch], list[Call]()
        probe_replies: list[_Reply] = []
        for probe in probes:
            probe_attempt = replace(attempt, text=item.texts[probe])
            judge_question, axis = subjects_of(self._method, probe_attempt, question, gold)[item.index]
            form = (
                replace(judge_question.form, values=judge_question.form.values[::-1])
                if probe == "turned"
                else judge_question.form
            )
            messages = prompts.render(
                judge_question.prompt, question.language, **judge_question.texts, form=form.example
            )
            judgement = await ask(judge, journal, messages, form, first=_AGAIN if probe == "again" else 0)
            label, replies = judgement.values.get(axis, ""), sum(not call.error for call in judgement.calls)
            probe_replies.append(_Reply(item, probe, label, replies, self.step))
            calls += judgement.calls if probe != "main" else ()
        self.replies[judge.spec] += probe_replies
        return JudgedAnswer(scores=(), calls=tuple(calls), failed=any(call.error for call in calls))


async def probe_runs(
    store: Store,
    runs: Sequence[Run],
    label_judge: LabelJudge,
    tasks: Mapping[Key, JudgeTask],
    judged_answers: Mapping[Key, JudgedAnswer],
    wish: Probing,
    prompts: Prompts,
    at_once: int,
    admission: Admission,
) -> dict[int, JudgingResult]:
    """Return run index → gates of its judges and the calls that they took, or the reason why gates are missing.

    Args:
        store: store of the runs.
        runs: judged runs. Recorded probes gate their scores if no others can be made.
        label_judge: attempt judge of the runs.
        tasks: tasks of the judges.
        judged_answers: judged answers to the tasks.
        wish: number of answers to probe, and the least share.
        prompts: prompts of the probes.
        at_once: number of answers that are probed concurrently.
        admission: admission that says whether the budget allows more.
    """
    judged_runs: dict[int, JudgingResult] = {}
    for run in {key[0]: None for key in judged_answers}:
        keys = [key for key in tasks if key[0] == run and key in judged_answers]
        answers = [judged_answers[key] for key in keys]
        if not any(answer.verdicts for answer in answers):
            continue
        if wish.answers == 0:
            judged_runs[run] = JudgingResult(unprobed="--probes 0")
            continue
        judged_runs[run] = await _probe_run(
            label_judge.method, [tasks[key] for key in keys], answers, wish, prompts, at_once, admission
        )
        if judged_runs[run].gates:
            continue
        judges = dict.fromkeys(tasks[key].judge.spec for key in keys)
        recorded_gates = [recorded_gate(store, runs[run], label_judge.method, judge, wish.least) for judge in judges]
        usable_gates = tuple(recorded for recorded in recorded_gates if recorded and recorded.answers >= FEWEST)
        if len(usable_gates) == len(judges):  # so that withheld scores stay withheld
            judged_runs[run] = replace(judged_runs[run], gates=usable_gates, unprobed="")
        elif admission.ended:
            judged_runs[run] = replace(judged_runs[run], unprobed=f"it ended early: {admission.ended}")
    return judged_runs


async def _probe_run(
    method: LabelMethod,
    tasks: Sequence[JudgeTask],
    answers_by_task: Sequence[JudgedAnswer],
    wish: Probing,
    prompts: Prompts,
    at_once: int,
    admission: Admission,
) -> JudgingResult:
    judges = list(dict.fromkeys(task.judge.spec for task in tasks))
    graded = [(task.attempt, task.question, task.gold) for task in tasks if task.judge.spec == judges[0]]
    items = list(islice(planned(graded, method), wish.answers or MOST + _MORE))
    if not items:
        return JudgingResult(unprobed="for no answer is a right and a wrong verdict known")
    calls, gates = list[Call](), list[ProbedGate]()
    for judge in judges:
        own_tasks = [
            (task, answer) for task, answer in zip(tasks, answers_by_task, strict=True) if task.judge.spec == judge
        ]
        taken = sum(len(answer.calls) for _, answer in own_tasks)
        budget = int(SHARE * taken) if wish.answers is None else None
        first = _first_step(items, budget)
        if not first:
            # Without their number, so that runs that are judged together share the sentence.
            return JudgingResult(unprobed=f"its calls are few; --probes {FEWEST} probes {FEWEST} answers all the same")
        prober, probe_calls, asked = Prober(method), list[Call](), first
        while asked:
            prober.asked = {(item.question.id, item.attempt.epoch): (item, probes) for item, probes in asked}
            answers = await judge_tasks(
                prober,
                [task for task, _ in own_tasks if (task.question.id, task.attempt.epoch) in prober.asked],
                prompts,
                at_once=at_once,
                admits=admission.affords,
                done=admission.judged,
            )
            probe_calls += [call for answer in answers if answer for call in answer.calls]
            if None in answers:
                return JudgingResult(
                    calls=(*calls, *probe_calls),
                    unprobed="probing was broken off, by Ctrl-C or a budget; the same command goes on",
                )
            if budget is None or asked is not first:
                break
            left, prober.step = budget - _call_count(first), 2
            asked = _second_step(items[len(first) :], prober.replies[judge], wish.least, left)
        calls += probe_calls
        verdicts = [verdict for _, answer in own_tasks for verdict in answer.verdicts]
        gates.append(gate(judge, prober.replies[judge], wish.least, verdicts, taken + len(probe_calls)))
    return JudgingResult(calls=tuple(calls), gates=tuple(gates))


def _first_step(items: Sequence[ProbeItem], budget: int | None) -> list[Asked]:
    """Return the probes of the first step: all without a budget, and none if the budget of calls is too small."""
    if budget is None:
        return [(item, tuple(item.texts)) for item in items]
    count = min(MOST, max(_FIRST, (budget - _MORE) // len(PROBES)))
    asked = [
        (item, tuple(probe for probe in item.texts if place % 2 == 0 or probe not in _HALVED))
        for place, item in enumerate(items[:count])
    ]
    return asked if _call_count(asked) <= budget else []


def _second_step(items: Sequence[ProbeItem], replies: Sequence[_Reply], least: float, budget: int) -> list[Asked]:
    """Return the kinds of probes that a judge failed most, or those of its noise if it failed none, of further items;
    none if the first step decides."""
    rows = _rows(replies)
    outcomes = _outcomes(rows)
    failed = sorted(
        (probe for probe in PROBES if not all(passed for _, passed in outcomes[probe])),
        key=lambda probe: fmean(passed for _, passed in outcomes[probe]),
    )
    if failed and _withholding(outcomes, _pooled(rows), least):
        return []
    kinds, asked = (failed or _HALVED[:1])[: max(1, budget // _MORE)], list[Asked]()
    for item in items:
        probes = [probe for probe in kinds if probe in item.texts]
        if probes and len(asked) < _MORE and _call_count(asked) + len(probes) <= budget:
            asked.append((item, ("main", *probes)))
    return asked


def _call_count(asked: Iterable[Asked]) -> int:
    return sum(len(probes) - 1 for _, probes in asked)


def recorded_noise(store: Store, run: Run, method: LabelMethod, judges: ScoreJudges) -> str:
    """Return the noise of a run's judge by its recorded probes; empty without probes, or if no single judge is
    known."""
    probed_gate = recorded_gate(store, run, method, judges.judges[0]) if judges.known and not judges.panel else None
    return probed_gate.noise if probed_gate else ""


def recorded_gate(store: Store, run: Run, method: LabelMethod, judge: str, least: float = LEAST) -> ProbedGate | None:
    """Return the gate from the recorded probes of a judge of a run; ``None`` without probes of this judge and
    prompt."""
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    fitting = {question.id: question for question in questions if method.fits(question, golds[question.id])}
    attempts = (attempt for attempt in store.attempts(run) if attempt.question_id in fitting)
    tried = ((attempt, fitting[attempt.question_id], golds[attempt.question_id]) for attempt in attempts)
    prober = Prober(method)
    recorded, replies = RecordedJudge(store, prober, judge), prober.replies[judge]
    missing_in_row = 0
    for item in islice(planned(tried, method), _LOOKED_AT):
        before, attempt = len(replies), item.attempt
        # A text that is the answer itself was also judged as the answer, and alone shows no probe.
        probes = [probe for probe, text in item.texts.items() if probe in _HALVED or text != item.texts["main"]]
        for probe in (*probes, *(item.texts.keys() - probes - {"main"}), "main"):
            if probe in probes or len(replies) > before:
                prober.asked = {(item.question.id, attempt.epoch): (item, (probe,))}
                recorded.judge(attempt, item.question, item.gold)
        if replies[before:] and replies[-1].probe != "main":
            del replies[before:]  # probes of an answer whose own verdict is not recorded
        missing_in_row = 0 if len(replies) > before else missing_in_row + 1
        if missing_in_row == FEWEST:
            break
    return gate(judge, replies, least) if replies else None


class ProbeShare(Struct, frozen=True, kw_only=True):
    """Share of probes of one kind that a judge passes."""

    probe: str
    share: Estimate

    def __str__(self) -> str:
        return f"{self.probe} {round(self.share.value * self.share.n):,} of {self.share.n:,}"


class ProbedGate(JudgeGate, frozen=True, kw_only=True):
    """Gate with its figures."""

    answers: int
    calls: int
    """Number of calls of the probes alone."""
    cost_share: float | None
    """Share of the probes in all calls that judging the run took; ``None`` if not known."""
    shares: tuple[ProbeShare, ...]
    named: tuple[str, ...]
    """Kind of a judge that fails, such as ``noisy`` or ``follows planted verdicts``."""
    undecided: tuple[str, ...]
    """Probes on which the judge is below the least share, but not significantly."""


def gate(
    judge: str, replies: Sequence[_Reply], least: float = LEAST, verdicts: Sequence[Verdict] = (), all_calls: int = 0
) -> ProbedGate:
    """Return the gate of a judge from its replies to probes.

    Args:
        judge: spec of the judge.
        replies: replies to all probes.
        least: share of passed probes of an able judge; scores are withheld if the judge is significantly below it.
        verdicts: verdicts of the judge on the run, in the order in which it was asked.
        all_calls: number of calls that judging took, including the probes; 0 if not known.
    """
    rows = _rows(replies)
    values = _outcomes(rows)
    readable: dict[str, list[bool]] = defaultdict(list)
    for reply in replies:
        if reply.replies:
            readable[reply.item.question.id].append(bool(reply.label))
    for verdict in verdicts:
        if verdict.outcome or unreadable(verdict.reason):
            readable[verdict.question_id].append(bool(verdict.outcome))
    values["readable"] = [(name, flag) for name, flags in readable.items() for flag in flags]
    shares = tuple(
        ProbeShare(
            probe=probe,
            share=stratified_mean([float(passed) for _, passed in outcomes], clusters=[name for name, _ in outcomes]),
        )
        for probe, outcomes in values.items()
        if outcomes
    )
    run_labels = [verdict.outcome for verdict in verdicts if verdict.outcome]
    below = _withholding(values, pooled := _pooled(rows), least)
    inverted = _inverted_groups(rows) if least else []
    kinds = _failure_kinds(rows, shares, below, inverted, run_labels) if below or inverted else ()
    failures = [
        f"{_WORDS[share.probe]} in {str(share).removeprefix(share.probe)[1:]}"
        for share in shares
        if share.probe in below
    ]
    if ALL_PROBES in below:
        failures.append(f"gives the verdict that is known in {sum(pooled):,} of {len(pooled):,}")
    withheld = (
        f"fails its probes ({', '.join(kinds)})" + (f": it {', '.join(failures)}" if failures else "") if kinds else ""
    )
    undecided = tuple(
        share.probe for share in shares if share.probe not in below and _failure_p(values[share.probe], least) <= _DOUBT
    )
    calls, judge_name = sum(reply.replies for reply in replies if reply.probe != "main"), judge.partition("[")[0]
    noise = next((_noise(share.share) for share in shares if share.probe == "again"), "")
    below_all = ", ".join(str(share) for share in shares if share.share.value < 1)
    passed = f"does not pass all probes ({below_all})" if below_all else "passes all probes"
    words = [f"{judge_name} {passed}; noise {noise or 'not known'}."]
    if withheld:
        words.append(f"Withheld: {judge_name} {withheld}. --withhold-below 0 shows its scores.")
    elif undecided:
        words.append(
            f"Undecided, too few answers: {', '.join(undecided)}. --probes {max(2 * len(rows), 20)} shows more."
        )
    return ProbedGate(
        judge=judge,
        noise=noise,
        withheld=withheld,
        words=tuple(words),
        answers=len(rows),
        calls=calls,
        cost_share=calls / all_calls if all_calls else None,
        shares=shares,
        named=kinds,
        undecided=undecided,
    )


def _rows(replies: Iterable[_Reply]) -> dict[str, dict[str, _Reply]]:
    """Return question → probe → reply."""
    rows: dict[str, dict[str, _Reply]] = defaultdict(dict)
    for reply in replies:
        rows[reply.item.question.id][reply.probe] = reply
    return rows


def _outcomes(rows: Mapping[str, Mapping[str, _Reply]]) -> dict[str, list[Outcome]]:
    """Return probe → question and whether the judge passes the probe, for replies that can be read."""
    outcomes: dict[str, list[Outcome]] = {probe: [] for probe in _WORDS}
    for name, row in rows.items():
        for probe, reply in row.items():
            if probe in _HALVED:
                if (main := row["main"].label) and reply.label:
                    outcomes[probe].append((name, reply.label == main))
            elif probe != "main" and reply.label:
                is_best = reply.item.worth[reply.label] == max(reply.item.worth.values())
                outcomes[probe].append((name, is_best == (probe == "reference")))
    return outcomes


def _pooled(rows: Mapping[str, Mapping[str, _Reply]]) -> list[bool]:
    """Return whether the judge passes each probe of known verdict, for answers with all of their probes.

    Answers of the second step are left out, so that the pooled test counts no failure twice.
    """
    whole = dict[str, Mapping[str, _Reply]]()
    for name, row in rows.items():
        reply = next(iter(row.values()))
        if reply.step == 1 and reply.item.texts.keys() <= row.keys() | {*_HALVED}:
            whole[name] = row
    outcomes = _outcomes(whole)
    return [passed for probe in PROBES if probe not in _HALVED for _, passed in outcomes[probe]]


def _withholding(outcomes: Mapping[str, Sequence[Outcome]], pooled: Sequence[bool], least: float) -> list[str]:
    """Return the kinds of probes of which an able judge would hardly fail so many; :data:`ALL_PROBES` for all
    together."""
    below = [probe for probe in _WORDS if _failure_p(outcomes.get(probe, ()), least) <= LEVEL / len(_WORDS)]
    if _tail(pooled.count(False), len(pooled), least) <= LEVEL:
        below.append(ALL_PROBES)
    return below


def _failure_p(outcomes: Sequence[Outcome], least: float) -> float:
    """Return the chance that a judge, which passes each probe with the chance `least`, fails at least so many.

    Several outcomes of one question count as one, with their mean.
    """
    by_question: dict[str, list[bool]] = defaultdict(list)
    for name, passed in outcomes:
        by_question[name].append(passed)
    failures = sum(1 - fmean(flags) for flags in by_question.values())
    return _tail(int(failures + 1e-9), len(by_question), least)


def _tail(failures: int, count: int, least: float) -> float:
    """Return the chance of at least so many failures in `count` independent probes."""
    return sum(comb(count, k) * (1 - least) ** k * least ** (count - k) for k in range(failures, count + 1))


def _noise(again: Estimate) -> str:
    low, high = 1 - (again.high or 1.0), 1 - (again.low or 0.0)
    return f"{100 * (1 - again.value):.0f} % (95 %: {100 * low:.0f} to {100 * high:.0f})"


def _inverted_groups(rows: Mapping[str, Mapping[str, _Reply]]) -> list[str]:
    """Return the groups of questions in which the judge prefers a wrong text to the reference, in most answers and at
    least twice."""
    inversions: dict[str, list[bool]] = defaultdict(list)
    for row in rows.values():
        reference_label, item = row["reference"].label if "reference" in row else "", row["main"].item
        wrong_labels = [row[probe].label for probe in WRONG if probe in row and row[probe].label]
        if reference_label and wrong_labels:
            above_reference = sum(item.worth[label] > item.worth[reference_label] for label in wrong_labels)
            inversions[item.question.group or item.question.benchmark].append(2 * above_reference > len(wrong_labels))
    return [group for group, flags in inversions.items() if sum(flags) >= 2 and 2 * sum(flags) > len(flags)]


def _failure_kinds(
    rows: Mapping[str, Mapping[str, _Reply]],
    shares: Sequence[ProbeShare],
    below: Sequence[str],
    inverted: Sequence[str],
    run_labels: Sequence[str],
) -> tuple[str, ...]:
    """Return the kinds of judge that fail in this way; kinds that explain others come first.

    `run_labels` are its verdicts in their order.
    """
    best_by_probe: dict[str, list[bool]] = defaultdict(list)
    labels: set[str] = set()
    direction_counts = [0, 0]
    for row in rows.values():
        worth = row["main"].item.worth
        best = max(worth, key=worth.__getitem__)
        for probe, reply in row.items():
            if reply.label:
                best_by_probe[probe].append(reply.label == best)
                labels.add(reply.label)
        main, again = row["main"].label, row["again"].label if "again" in row else ""
        if main and again and main != again:
            direction_counts[worth[again] > worth[main]] += 1
    best_share = {probe: sum(flags) / len(flags) for probe, flags in best_by_probe.items()}
    if "readable" in below:
        return ("mute",)
    if direction_counts[0] != direction_counts[1] and (
        binomial_p(*direction_counts) <= _DRIFT or (min(direction_counts) == 0 and _has_drifted(run_labels))
    ):
        return ("drifting",)
    if "again" in below:
        return ("noisy",)
    turned = next((share.share.value for share in shares if share.probe == "turned"), 1.0)
    if "turned" in below or (ALL_PROBES in below and turned <= _CLEAR):
        return ("depends on label order",)
    if len(labels) == 1:
        return (f"always says {labels.pop()!r}",)
    kinds = []
    empty, long, shuffled = (best_share.get(probe, 0.0) for probe in ("empty", "long", "shuffled"))
    exchanged, planted = (best_share.get(probe, 0.0) for probe in ("exchanged", "planted"))
    if long - max(empty, best_share.get("reference", 0.0)) >= _CLEAR:
        return ("depends on length",)
    if inverted:
        kinds.append(f"inverted on {', '.join(inverted)}")
    elif shuffled - max(empty, exchanged, long) >= _CLEAR:
        kinds.append("favours this run's answers")
    if planted - max(shuffled, exchanged, empty) >= _CLEAR:
        kinds.append("follows planted verdicts")
    return tuple(kinds) or ("does not tell right from wrong",)


def _has_drifted(labels: Sequence[str]) -> bool:
    """Return True if the first label is given significantly more or less often in the second half of the verdicts."""
    half = len(labels) // 2
    if not half:
        return False
    first, second = ([float(label == labels[0]) for label in part] for part in (labels[:half], labels[half:]))
    difference = group_difference(first, second)
    return difference.low is not None and difference.high is not None and (difference.low > 0 or difference.high < 0)
