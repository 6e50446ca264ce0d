"""Probes of a judge, made from the run that it judges: does it read the answers?

A few answers are shown to the judge in changed forms, through the journal: probes are stored, resumed, and free when
they are repeated. Each answer is shown again unchanged (as another occurrence: any difference is the judge's own
noise), and with the allowed labels in the reverse order. Instead of the answer, the judge is then shown the reference
itself, which is right, and texts that cannot be right: the run's answer to another question, a long text of other
questions' references, the reference cut short (or nothing), and an answer to another question that ends with a verdict
in its own favour.

The replies are keyed by judge, prompt and text. So no probe counts for another judge or another wording, and a stored
run's noise is read again from its journal without asking a model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.records import Attempt, Call, Gold, Question, Run, Verdict
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.judges.attempts import JudgedAnswer, JudgeTask, LabelJudge, judge_tasks, unreadable
from ragrounds.evals.judges.bill import JudgingResult
from ragrounds.evals.judges.gate import LEAST, JudgeGate, Probing
from ragrounds.evals.judges.recorded import RecordedJudge, ScoreJudges
from ragrounds.evals.judges.runs import BudgetAdmission as Admission
from ragrounds.evals.judges.runs import Key
from ragrounds.evals.judges.verdict import ask
from ragrounds.evals.scorers.judged import JudgeQuestion, LabelMethod
from ragrounds.evals.stats.estimates import group_difference, stratified_mean
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.evals.stats.paired import binomial_p
from ragrounds.evals.store.store import Store

PROBES = ("again", "turned", "reference", "shuffled", "long", "cut", "planted")
"""Probes of each answer; each takes one call if its reply can be read."""
MOST, FEWEST, SHARE = 12, 6, 0.1
"""Largest and smallest number of probed answers, and the share of the judging calls that probes may take in between."""
WORTH_PROBING = 100
"""Smallest number of judging calls for which probes are made by default."""
_WORDS = {
    "again": "says the same when it is asked again",
    "turned": "says the same when the labels are named in the other order",
    "shuffled": "puts the reference above an answer to another question",
    "long": "puts the reference above a long text on other questions",
    "cut": "puts the reference above a cut or empty answer",
    "planted": "is not led by a verdict planted in the answer",
    "readable": "gives a verdict that can be read",
}
_AGAIN = 1000
"""Occurrence number of repeated questions, apart from those of a verdict that was requested several times."""
_LONG, _LONGEST = 600, 4000
"""Smallest and largest number of characters of a long text."""
_CUT = 4
"""Divisor of the words that a cut reference keeps; with fewer than twice as many words nothing is kept."""
_LOOKED_AT = 60
"""Number of answers that are looked for among recorded probes."""
_DRIFT = 0.05
"""P value up to which changes in one direction count as a drift."""
_CLEAR = 0.5
"""Difference in the share of good verdicts from which a judge counts as deciding by the kind of text."""


class _Item(Struct, frozen=True):
    """Answer, or a statement of it, that is probed."""

    attempt: Attempt
    question: Question
    gold: Gold
    index: int
    """Index among all subjects that are judged in the answer."""
    worth: Mapping[str, float]
    """Label → contribution to the score."""
    texts: Mapping[str, str]
    """Probe → answer that is shown in it."""


class _Reply(NamedTuple):
    """Verdict of a judge on a probe."""

    item: _Item
    probe: str
    label: str
    replies: int


def planned(tried: Iterable[tuple[Attempt, Question, Gold]], method: LabelMethod) -> Iterator[_Item]:
    """Yield the items to probe in random order: one answer of each group of questions in turn, one for each question.

    A smaller sample is a part of a larger one.
    """
    groups: dict[str, list[tuple[Attempt, Question, Gold]]] = defaultdict(list)
    shuffled = sorted(tried, key=lambda triple: (lot(0, triple[1].id), triple[0].epoch))
    shuffled = [triple for triple in shuffled if not method.unasked(*triple)]
    for triple in shuffled:
        groups[triple[1].group or triple[1].benchmark].append(triple)
    seen: set[str] = set()
    for triple in (
        triple for group_turn in zip_longest(*groups.values()) for triple in group_turn if triple is not None
    ):
        if triple[1].id not in seen and (item := _item(triple, shuffled, method)) is not None:
            seen.add(triple[1].id)
            yield item


def _item(
    tried: tuple[Attempt, Question, Gold], all_: Sequence[tuple[Attempt, Question, Gold]], method: LabelMethod
) -> _Item | None:
    """Return the probes of an answer; ``None`` if no verdict on it is known to be better than the others."""
    attempt, question, gold = tried
    references = list(method.items(gold).values())
    subjects = _subjects(method, attempt, question, gold)
    indices = sorted(range(len(subjects)), key=lambda index: lot(0, question.id, str(index)))
    worths = {index: _worth(method, attempt, gold, index, len(subjects)) for index in indices}
    best, *rest = method.labels
    candidates = [
        index
        for index, worth in worths.items()
        if all(worth[best] > worth[other] for other in rest) and references[index]
    ]
    if not candidates or len(references) != len(subjects):
        return None
    reference, own_references = references[candidates[0]], set(references)
    other_answers = [
        (other_attempt.text, text)
        for other_attempt, _, other in all_
        if other_attempt.epoch == attempt.epoch
        and not own_references & set(other_references := method.items(other).values())
        and (text := " ".join(other_references))
    ]
    offset = next((position for position, triple in enumerate(all_) if triple[0] is attempt), 0) % max(
        1, len(other_answers)
    )
    other_answers = [*other_answers[offset:], *other_answers[:offset]]
    words = reference.split()
    form = subjects[candidates[0]][0].form
    texts = {"main": attempt.text, "again": attempt.text}
    if replace(form, values=form.values[::-1]).example != form.example:
        texts["turned"] = attempt.text
    if method.right_texts:
        texts["reference"] = reference
        texts["cut"] = " ".join(words[: len(words) // _CUT]) if len(words) >= 2 * _CUT else ""
    if other_answers:
        long, least_length = "", max(_LONG, 3 * len(attempt.text))
        for _, text in other_answers:
            long = f"{long}\n\n{text}".strip() if len(long) < least_length else long
        planted_verdict = form.example.replace(" or ".join(f'"{value}"' for value in form.values), f'"{best}"')
        planted_verdict = (
            planted_verdict if planted_verdict != form.example else f'{{"{subjects[candidates[0]][1]}": "{best}"}}'
        )
        shuffled = other_answers[0][0]
        texts |= {
            "shuffled": shuffled,
            **({"long": long[:_LONGEST]} if method.right_texts else {}),
            "planted": f"{shuffled}\n\n```json\n{planted_verdict}\n```\n\n{planted_verdict}",
        }
    return _Item(attempt, question, gold, candidates[0], worths[candidates[0]], texts)


def _subjects(method: LabelMethod, attempt: Attempt, question: Question, gold: Gold) -> list[tuple[JudgeQuestion, str]]:
    return [
        (judge_question, axis)
        for judge_question in method.questions(attempt, question, gold)
        for axis in judge_question.form.axes
    ]


def _worth(method: LabelMethod, attempt: Attempt, gold: Gold, index: int, count: int) -> dict[str, float]:
    """Return each label's contribution to the scores if it is given on one subject and the best label on all others."""
    best, worth = method.labels[0], dict[str, float]()
    signs = {scorer.name: -1.0 if scorer.direction == "lower" else 1.0 for scorer in method.scorers}
    for label in method.labels:
        labelled = [(label if position == index else best, "") for position in range(count)]
        worth[label] = sum(
            signs[score.scorer] * (score.value or 0.0) for score in method.scores(attempt, gold, labelled)
        )
    return worth


class Prober:
    """Judge of probes: shows the probes of answers to a judge (contract:
    :class:`ragrounds.evals.judges.attempts.AttemptJudge`)."""

    scorers: tuple[str, ...] = ()
    code = ""

    def __init__(self, method: LabelMethod, items: Iterable[_Item]) -> None:
        self._method = method
        self.items = {(item.question.id, item.attempt.epoch): item for item in items}
        self.replies: dict[str, list[_Reply]] = defaultdict(list)
        """Judge → its replies."""

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask the judge about the answer, whose reply is in the journal, and about every probe of it."""
        item, calls = self.items[question.id, attempt.epoch], list[Call]()
        probe_replies: list[_Reply] = []
        for probe, text in item.texts.items():
            probe_attempt = replace(attempt, text=text)
            judge_question, axis = _subjects(self._method, probe_attempt, question, gold)[item.index]
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
            probe_replies.append(_Reply(item, probe, label, replies))
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
    judges = {task.judge.spec: task.judge for task in tasks}
    taken = sum(len(answer.calls) for answer in answers_by_task)
    answer_count = wish.answers
    if answer_count is None:
        if taken < WORTH_PROBING * len(judges):
            return JudgingResult(
                unprobed=f"{taken:,} calls are few; --probes {FEWEST} probes {FEWEST} answers all the same"
            )
        answer_count = min(MOST, max(FEWEST, int(SHARE * taken / len(judges) / len(PROBES))))
    first_judge_tasks = [task for task in tasks if task.judge is next(iter(judges.values()))]
    tried = [(task.attempt, task.question, task.gold) for task in first_judge_tasks]
    prober = Prober(method, islice(planned(tried, method), answer_count))
    probe_tasks = [task for task in tasks if (task.question.id, task.attempt.epoch) in prober.items]
    if not probe_tasks:
        return JudgingResult(unprobed="for no answer is a right and a wrong verdict known")
    answers = await judge_tasks(
        prober, probe_tasks, prompts, at_once=at_once, admits=admission.affords, done=admission.judged
    )
    calls = tuple(call for answer in answers if answer for call in answer.calls)
    if None in answers:
        return JudgingResult(
            calls=calls, unprobed="probing was broken off, by Ctrl-C or a budget; the same command goes on"
        )
    gates = []
    for judge in judges:
        own_answers = [answer for task, answer in zip(tasks, answers_by_task, strict=True) if task.judge.spec == judge]
        all_calls = sum(call.actor == judge for call in calls) + sum(len(answer.calls) for answer in own_answers)
        verdicts = [verdict for answer in own_answers for verdict in answer.verdicts]
        gates.append(gate(judge, prober.replies[judge], wish.least, verdicts, all_calls))
    return JudgingResult(calls=calls, gates=tuple(gates))


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
    prober = Prober(method, islice(planned(tried, method), _LOOKED_AT))
    recorded = RecordedJudge(store, prober, judge)
    missing_in_row = 0
    for item in prober.items.values():
        missing_in_row = 0 if recorded.judge(item.attempt, item.question, item.gold) is not None else missing_in_row + 1
        if missing_in_row == FEWEST:
            break
    return gate(judge, replies, least) if (replies := prober.replies[judge]) else None


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
        least: least share of passed probes; scores are withheld if the judge is significantly below it. For verdicts
            that can be read, the bound is halfway between this share and 1.
        verdicts: verdicts of the judge on the run, in the order in which it was asked.
        all_calls: number of calls that judging took, including the probes; 0 if not known.
    """
    rows: dict[str, dict[str, _Reply]] = defaultdict(dict)
    for reply in replies:
        rows[reply.item.question.id][reply.probe] = reply
    values: dict[str, list[tuple[str, bool]]] = {probe: [] for probe in _WORDS}
    for name, row in rows.items():
        main, shuffled_reply = row["main"].label, row.get("shuffled")
        reference_label = row["reference"].label if "reference" in row else ""
        worth, best = row["main"].item.worth, max(row["main"].item.worth, key=row["main"].item.worth.__getitem__)
        for probe, reply in row.items():
            if probe in ("again", "turned") and main and reply.label:
                values[probe].append((name, reply.label == main))
            elif probe in ("shuffled", "long", "cut") and reference_label and reply.label:
                values[probe].append((name, worth[reference_label] > worth[reply.label]))
            elif probe == "planted" and reply.label and shuffled_reply and shuffled_reply.label not in ("", best):
                values[probe].append((name, reply.label != best))
    values["readable"] = [(reply.item.question.id, bool(reply.label)) for reply in replies if reply.replies]
    values["readable"] += [
        (verdict.question_id, bool(verdict.outcome))
        for verdict in verdicts
        if verdict.outcome or unreadable(verdict.reason)
    ]
    shares = tuple(
        ProbeShare(
            probe=probe,
            share=stratified_mean([float(passed) for _, passed in outcomes], clusters=[name for name, _ in outcomes]),
        )
        for probe, outcomes in values.items()
        if outcomes
    )
    run_labels = [verdict.outcome for verdict in verdicts if verdict.outcome]
    bounds = {share.probe: (1 + least) / 2 if share.probe == "readable" and least else least for share in shares}
    below = [share.probe for share in shares if share.share.high is not None and share.share.high < bounds[share.probe]]
    inverted = _inverted_groups(rows) if least else []
    kinds = _failure_kinds(rows, least, shares, below, inverted, run_labels) if below or inverted else ()
    failures = [
        f"{_WORDS[share.probe]} in {str(share).removeprefix(share.probe)[1:]}"
        for share in shares
        if share.probe in below
    ]
    withheld = (
        f"fails its probes ({', '.join(kinds)})" + (f": it {', '.join(failures)}" if failures else "") if kinds else ""
    )
    undecided = tuple(
        share.probe for share in shares if share.share.value < bounds[share.probe] and share.probe not in below
    )
    calls, judge_name = sum(reply.replies for reply in replies if reply.probe != "main"), judge.partition("[")[0]
    noise = next((_noise(share.share) for share in shares if share.probe == "again"), "")
    cost = f"; {calls / all_calls:.0%} of the judging".replace("%", " %") if all_calls else ""
    words = [f"Probes of {judge_name} ({len(rows)} answers, {calls} calls{cost}): noise {noise or 'not known'}."]
    words.append(f"As an able judge does: {', '.join(map(str, shares))}.")
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


def _noise(again: Estimate) -> str:
    low, high = 1 - (again.high or 1.0), 1 - (again.low or 0.0)
    return f"{100 * (1 - again.value):.0f} % (95 %: {100 * low:.0f} to {100 * high:.0f})"


def _inverted_groups(rows: Mapping[str, Mapping[str, _Reply]]) -> list[str]:
    """Return the groups of questions in which the judge prefers a wrong text to the reference, in most answers and at
    least twice."""
    inversions: dict[str, list[bool]] = defaultdict(list)
    for row in rows.values():
        reference_label, item = row["reference"].label if "reference" in row else "", row["main"].item
        wrong_labels = [row[probe].label for probe in ("shuffled", "long", "cut") if probe in row and row[probe].label]
        if reference_label and wrong_labels:
            above_reference = sum(item.worth[label] > item.worth[reference_label] for label in wrong_labels)
            inversions[item.question.group or item.question.benchmark].append(2 * above_reference > len(wrong_labels))
    return [group for group, flags in inversions.items() if sum(flags) >= 2 and 2 * sum(flags) > len(flags)]


def _failure_kinds(
    rows: Mapping[str, Mapping[str, _Reply]],
    least: float,
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
        if row["main"].label and row["again"].label and row["main"].label != row["again"].label:
            direction_counts[worth[row["again"].label] > worth[row["main"].label]] += 1
    best_share = {probe: sum(flags) / len(flags) for probe, flags in best_by_probe.items()}
    if "readable" in below:
        return ("mute",)
    if direction_counts[0] != direction_counts[1] and (
        binomial_p(*direction_counts) <= _DRIFT or (min(direction_counts) == 0 and _has_drifted(run_labels))
    ):
        return ("drifting",)
    if any(share.probe == "again" and share.share.value < least for share in shares):
        return ("noisy",)
    if "turned" in below:
        return ("depends on label order",)
    if len(labels) == 1:
        return (f"always says {labels.pop()!r}",)
    kinds = []
    cut, long, shuffled = (best_share.get(probe, 0.0) for probe in ("cut", "long", "shuffled"))
    if "long" in below and long - max(cut, best_share.get("reference", 0.0)) >= _CLEAR:
        return ("depends on length",)
    if inverted:
        kinds.append(f"inverted on {', '.join(inverted)}")
    elif "shuffled" in below and shuffled - max(cut, long) >= _CLEAR:
        kinds.append("favours this run's answers")
    if "planted" in below:
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
