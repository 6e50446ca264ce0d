"""Probes of a judge, made from the run that it judges: does it read the answers?

A few answers are put to it in changed forms, through the journal: they are stored, resumed, and free when they are
repeated. Each is put again as it is (another occurrence: what differs is the judge's own noise), and with the allowed
labels named in the other order. In its place the judge is then shown the reference itself, which is right, and what
cannot be: the run's answer to another question, a long text of other questions' references, the reference cut short
(or nothing), and an answer to another question that ends with a verdict in its own favour.

The replies are keyed by judge, prompt and text. So no probe vouches for another judge or another wording, and a stored
run's noise is read again from its journal, without asking a model.
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
from ragrounds.evals.judges.bill import Judged
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
"""What is put to a judge for each probed answer: a call each, where its reply can be read."""
MOST, FEWEST, SHARE = 12, 6, 0.1
"""Answers that are probed at most and at least, and between them the share of judging's calls that probes may take."""
WORTH_PROBING = 100
"""Calls of a judging from which on it is probed unasked."""
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
"""The occurrence of what is asked again: apart from those of a verdict that was asked for several times."""
_LONG, _LONGEST = 600, 4000
"""Letters that a long text has at least, and at most."""
_CUT = 4
"""The part of a reference that a cut one keeps: one word of so many; of fewer than twice as many words, nothing."""
_LOOKED_AT = 60
"""Answers that are looked for among recorded probes."""
_DRIFT = 0.05
"""The chance from which on changes that go one way are taken for a drift."""
_CLEAR = 0.5
"""How much oftener one kind of text than another is found good by a judge that goes by this kind."""


class _Item(Struct, frozen=True):
    """One answer, or a statement of it, that is probed."""

    attempt: Attempt
    question: Question
    gold: Gold
    place: int
    """Among all that is asked about the answer."""
    worth: Mapping[str, float]
    """What a label brings to the score."""
    texts: Mapping[str, str]
    """Probe → the answer that is shown in it."""


class _Reply(NamedTuple):
    """What a judge made of a probe."""

    item: _Item
    probe: str
    label: str
    replies: int


def planned(tried: Iterable[tuple[Attempt, Question, Gold]], method: LabelMethod) -> Iterator[_Item]:
    """What is probed first, next …: by lot, one answer of each group of questions in turn, one a question. A smaller
    sample is a part of a larger one."""
    groups: dict[str, list[tuple[Attempt, Question, Gold]]] = defaultdict(list)
    drawn = sorted(tried, key=lambda one: (lot(0, one[1].id), one[0].epoch))
    drawn = [one for one in drawn if not method.unasked(*one)]
    for one in drawn:
        groups[one[1].group or one[1].benchmark].append(one)
    seen: set[str] = set()
    for one in (one for turn in zip_longest(*groups.values()) for one in turn if one is not None):
        if one[1].id not in seen and (item := _item(one, drawn, method)) is not None:
            seen.add(one[1].id)
            yield item


def _item(
    tried: tuple[Attempt, Question, Gold], all_: Sequence[tuple[Attempt, Question, Gold]], method: LabelMethod
) -> _Item | None:
    """The probes of an answer; ``None``: no verdict on it is known to be better than the others."""
    attempt, question, gold = tried
    wanted = list(method.items(gold).values())
    subjects = _subjects(method, attempt, question, gold)
    places = sorted(range(len(subjects)), key=lambda place: lot(0, question.id, str(place)))
    worths = {place: _worth(method, attempt, gold, place, len(subjects)) for place in places}
    best, *rest = method.labels
    good = [
        place for place, worth in worths.items() if all(worth[best] > worth[other] for other in rest) and wanted[place]
    ]
    if not good or len(wanted) != len(subjects):
        return None
    right, own = wanted[good[0]], set(wanted)
    others = [
        (one.text, text)
        for one, _, other in all_
        if one.epoch == attempt.epoch
        and not own & set(held := method.items(other).values())
        and (text := " ".join(held))
    ]
    turn = next((number for number, one in enumerate(all_) if one[0] is attempt), 0) % max(1, len(others))
    others = [*others[turn:], *others[:turn]]
    words = right.split()
    grade = subjects[good[0]][0].form
    texts = {"main": attempt.text, "again": attempt.text}
    if replace(grade, values=grade.values[::-1]).example != grade.example:
        texts["turned"] = attempt.text
    if method.right_texts:
        texts["reference"] = right
        texts["cut"] = " ".join(words[: len(words) // _CUT]) if len(words) >= 2 * _CUT else ""
    if others:
        long, needed = "", max(_LONG, 3 * len(attempt.text))
        for _, text in others:
            long = f"{long}\n\n{text}".strip() if len(long) < needed else long
        said = grade.example.replace(" or ".join(f'"{value}"' for value in grade.values), f'"{best}"')
        said = said if said != grade.example else f'{{"{subjects[good[0]][1]}": "{best}"}}'
        shuffled = others[0][0]
        texts |= {
            "shuffled": shuffled,
            **({"long": long[:_LONGEST]} if method.right_texts else {}),
            "planted": f"{shuffled}\n\n```json\n{said}\n```\n\n{said}",
        }
    return _Item(attempt, question, gold, good[0], worths[good[0]], texts)


def _subjects(method: LabelMethod, attempt: Attempt, question: Question, gold: Gold) -> list[tuple[JudgeQuestion, str]]:
    return [(asked, axis) for asked in method.questions(attempt, question, gold) for axis in asked.form.axes]


def _worth(method: LabelMethod, attempt: Attempt, gold: Gold, place: int, count: int) -> dict[str, float]:
    """What each label on one subject brings to the scores, the best being given on all others."""
    best, worth = method.labels[0], dict[str, float]()
    signs = {one.name: -1.0 if one.direction == "lower" else 1.0 for one in method.scorers}
    for label in method.labels:
        said = [(label if number == place else best, "") for number in range(count)]
        worth[label] = sum(signs[one.scorer] * (one.value or 0.0) for one in method.scores(attempt, gold, said))
    return worth


class Prober:
    """Puts the probes of answers to a judge (contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`)."""

    scorers: tuple[str, ...] = ()
    code = ""

    def __init__(self, method: LabelMethod, items: Iterable[_Item]) -> None:
        self._method = method
        self.items = {(one.question.id, one.attempt.epoch): one for one in items}
        self.replies: dict[str, list[_Reply]] = defaultdict(list)
        """By judge."""

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask what was asked of the answer, which the journal holds, and every probe of it."""
        item, calls = self.items[question.id, attempt.epoch], list[Call]()
        made: list[_Reply] = []
        for probe, text in item.texts.items():
            shown = replace(attempt, text=text)
            asked, axis = _subjects(self._method, shown, question, gold)[item.place]
            form = replace(asked.form, values=asked.form.values[::-1]) if probe == "turned" else asked.form
            messages = prompts.render(asked.prompt, question.language, **asked.texts, form=form.example)
            said = await ask(judge, journal, messages, form, first=_AGAIN if probe == "again" else 0)
            label, replies = said.values.get(axis, ""), sum(not call.error for call in said.calls)
            made.append(_Reply(item, probe, label, replies))
            calls += said.calls if probe != "main" else ()
        self.replies[judge.spec] += made
        return JudgedAnswer(scores=(), calls=tuple(calls), failed=any(call.error for call in calls))


async def probe_runs(
    store: Store,
    runs: Sequence[Run],
    by: LabelJudge,
    tasks: Mapping[Key, JudgeTask],
    judged: Mapping[Key, JudgedAnswer],
    wish: Probing,
    prompts: Prompts,
    at_once: int,
    admission: Admission,
) -> dict[int, Judged]:
    """Place of a run → the gates of its judges and the calls that they took, or why there are none.

    Args:
        store: of the runs.
        runs: whose scores are gated by the probes that are recorded, where no others can be made.
        by: what judged.
        tasks: what was put to the judges.
        judged: what they made of it.
        wish: how many answers are probed, and the least share.
        prompts: of the probes.
        at_once: answers that are probed together.
        admission: whether there is money for more.
    """
    found: dict[int, Judged] = {}
    for run in {key[0]: None for key in judged}:
        keys = [key for key in tasks if key[0] == run and key in judged]
        answers = [judged[key] for key in keys]
        if not any(answer.verdicts for answer in answers):
            continue
        if wish.answers == 0:
            found[run] = Judged(unprobed="--probes 0")
            continue
        found[run] = await _probe_run(
            by.method, [tasks[key] for key in keys], answers, wish, prompts, at_once, admission
        )
        if found[run].gates:
            continue
        judges = dict.fromkeys(tasks[key].judge.spec for key in keys)
        kept = [recorded_gate(store, runs[run], by.method, judge, wish.least) for judge in judges]
        known = tuple(one for one in kept if one and one.answers >= FEWEST)
        if len(known) == len(judges):  # so that scores which were withheld stay so
            found[run] = replace(found[run], gates=known, unprobed="")
        elif admission.ended:
            found[run] = replace(found[run], unprobed=f"it ended early: {admission.ended}")
    return found


async def _probe_run(
    method: LabelMethod,
    tasks: Sequence[JudgeTask],
    judged: Sequence[JudgedAnswer],
    wish: Probing,
    prompts: Prompts,
    at_once: int,
    admission: Admission,
) -> Judged:
    judges = {task.judge.spec: task.judge for task in tasks}
    taken = sum(len(answer.calls) for answer in judged)
    number = wish.answers
    if number is None:
        if taken < WORTH_PROBING * len(judges):
            return Judged(unprobed=f"{taken:,} calls are few; --probes {FEWEST} probes {FEWEST} answers all the same")
        number = min(MOST, max(FEWEST, int(SHARE * taken / len(judges) / len(PROBES))))
    one_judge = [task for task in tasks if task.judge is next(iter(judges.values()))]
    tried = [(task.attempt, task.question, task.gold) for task in one_judge]
    by = Prober(method, islice(planned(tried, method), number))
    chosen = [task for task in tasks if (task.question.id, task.attempt.epoch) in by.items]
    if not chosen:
        return Judged(unprobed="for no answer is a right and a wrong verdict known")
    found = await judge_tasks(by, chosen, prompts, at_once=at_once, admits=admission.affords, done=admission.judged)
    calls = tuple(call for one in found if one for call in one.calls)
    if None in found:
        return Judged(calls=calls, unprobed="probing was broken off, by Ctrl-C or a budget; the same command goes on")
    gates = []
    for judge in judges:
        mine = [answer for task, answer in zip(tasks, judged, strict=True) if task.judge.spec == judge]
        of = sum(call.actor == judge for call in calls) + sum(len(answer.calls) for answer in mine)
        verdicts = [verdict for answer in mine for verdict in answer.verdicts]
        gates.append(gate(judge, by.replies[judge], wish.least, verdicts, of))
    return Judged(calls=calls, gates=tuple(gates))


def recorded_noise(store: Store, run: Run, method: LabelMethod, by: ScoreJudges) -> str:
    """The noise of a run's judge, by its recorded probes; empty: none, or it is not one judge that is known."""
    found = recorded_gate(store, run, method, by.judges[0]) if by.known and not by.panel else None
    return found.noise if found else ""


def recorded_gate(store: Store, run: Run, method: LabelMethod, judge: str, least: float = LEAST) -> ProbedGate | None:
    """What the probes in the journal say of a judge of a run; ``None``: there are none of this judge and prompt."""
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    fitting = {one.id: one for one in questions if method.fits(one, golds[one.id])}
    attempts = (one for one in store.attempts(run) if one.question_id in fitting)
    tried = ((one, fitting[one.question_id], golds[one.question_id]) for one in attempts)
    by = Prober(method, islice(planned(tried, method), _LOOKED_AT))
    recorded = RecordedJudge(store, by, judge)
    missed = 0
    for item in by.items.values():
        missed = 0 if recorded.judge(item.attempt, item.question, item.gold) is not None else missed + 1
        if missed == FEWEST:
            break
    return gate(judge, replies, least) if (replies := by.replies[judge]) else None


class ProbeShare(Struct, frozen=True, kw_only=True):
    """How often a judge did as an able one does, on one kind of probe."""

    probe: str
    share: Estimate

    def __str__(self) -> str:
        return f"{self.probe} {round(self.share.value * self.share.n):,} of {self.share.n:,}"


class ProbedGate(JudgeGate, frozen=True, kw_only=True):
    """A gate with its figures."""

    answers: int
    calls: int
    """Of the probes alone."""
    cost_share: float | None
    """Of all calls that judging the run took, those of the probes; ``None``: not known."""
    shares: tuple[ProbeShare, ...]
    named: tuple[str, ...]
    """What kind of judge it is, where it fails: ``noisy``, ``follows planted verdicts``."""
    undecided: tuple[str, ...]
    """The probes on which it is below the least share, but not surely."""


def gate(
    judge: str, replies: Sequence[_Reply], least: float = LEAST, given: Sequence[Verdict] = (), all_calls: int = 0
) -> ProbedGate:
    """What the replies to probes say of a judge.

    Args:
        judge: its text.
        replies: to all probes.
        least: the share of probes below which it surely is where its scores are withheld; of verdicts that cannot be
            read half as many may be.
        given: its verdicts on the run, in the order in which it was asked.
        all_calls: how many judging took, probes among them; 0: not known.
    """
    rows: dict[str, dict[str, _Reply]] = defaultdict(dict)
    for one in replies:
        rows[one.item.question.id][one.probe] = one
    values: dict[str, list[tuple[str, bool]]] = {probe: [] for probe in _WORDS}
    for name, row in rows.items():
        main, lured = row["main"].label, row.get("shuffled")
        right = row["reference"].label if "reference" in row else ""
        worth, best = row["main"].item.worth, max(row["main"].item.worth, key=row["main"].item.worth.__getitem__)
        for probe, one in row.items():
            if probe in ("again", "turned") and main and one.label:
                values[probe].append((name, one.label == main))
            elif probe in ("shuffled", "long", "cut") and right and one.label:
                values[probe].append((name, worth[right] > worth[one.label]))
            elif probe == "planted" and one.label and lured and lured.label not in ("", best):
                values[probe].append((name, one.label != best))
    values["readable"] = [(one.item.question.id, bool(one.label)) for one in replies if one.replies]
    values["readable"] += [
        (one.question_id, bool(one.outcome)) for one in given if one.outcome or unreadable(one.reason)
    ]
    shares = tuple(
        ProbeShare(
            probe=probe,
            share=stratified_mean([float(held) for _, held in made], clusters=[name for name, _ in made]),
        )
        for probe, made in values.items()
        if made
    )
    known = [one.outcome for one in given if one.outcome]
    bounds = {one.probe: (1 + least) / 2 if one.probe == "readable" and least else least for one in shares}
    below = [one.probe for one in shares if one.share.high is not None and one.share.high < bounds[one.probe]]
    inverted = _inverted(rows) if least else []
    named = _named(rows, least, shares, below, inverted, known) if below or inverted else ()
    said = [f"{_WORDS[one.probe]} in {str(one).removeprefix(one.probe)[1:]}" for one in shares if one.probe in below]
    withheld = f"fails its probes ({', '.join(named)})" + (f": it {', '.join(said)}" if said else "") if named else ""
    open_ = tuple(one.probe for one in shares if one.share.value < bounds[one.probe] and one.probe not in below)
    calls, short = sum(one.replies for one in replies if one.probe != "main"), judge.partition("[")[0]
    noise = next((_noise(one.share) for one in shares if one.probe == "again"), "")
    cost = f"; {calls / all_calls:.0%} of the judging".replace("%", " %") if all_calls else ""
    words = [f"Probes of {short} ({len(rows)} answers, {calls} calls{cost}): noise {noise or 'not known'}."]
    words.append(f"As an able judge does: {', '.join(map(str, shares))}.")
    if withheld:
        words.append(f"Withheld: {short} {withheld}. --withhold-below 0 shows its scores.")
    elif open_:
        words.append(f"Undecided, too few answers: {', '.join(open_)}. --probes {max(2 * len(rows), 20)} shows more.")
    return ProbedGate(
        judge=judge,
        noise=noise,
        withheld=withheld,
        words=tuple(words),
        answers=len(rows),
        calls=calls,
        cost_share=calls / all_calls if all_calls else None,
        shares=shares,
        named=named,
        undecided=open_,
    )


def _noise(again: Estimate) -> str:
    low, high = 1 - (again.high or 1.0), 1 - (again.low or 0.0)
    return f"{100 * (1 - again.value):.0f} % (95 %: {100 * low:.0f} to {100 * high:.0f})"


def _inverted(rows: Mapping[str, Mapping[str, _Reply]]) -> list[str]:
    """The groups of questions in which it puts what is wrong above the reference, in most answers and twice or more."""
    turned: dict[str, list[bool]] = defaultdict(list)
    for row in rows.values():
        right, item = row["reference"].label if "reference" in row else "", row["main"].item
        wrong = [row[probe].label for probe in ("shuffled", "long", "cut") if probe in row and row[probe].label]
        if right and wrong:
            above = sum(item.worth[label] > item.worth[right] for label in wrong)
            turned[item.question.group or item.question.benchmark].append(2 * above > len(wrong))
    return [group for group, held in turned.items() if sum(held) >= 2 and 2 * sum(held) > len(held)]


def _named(
    rows: Mapping[str, Mapping[str, _Reply]],
    least: float,
    shares: Sequence[ProbeShare],
    below: Sequence[str],
    inverted: Sequence[str],
    known: Sequence[str],
) -> tuple[str, ...]:
    """What kind of judge fails so; the kinds that explain others first. `known`: its verdicts, in their order."""
    given: dict[str, list[bool]] = defaultdict(list)
    labels: set[str] = set()
    moved = [0, 0]
    for row in rows.values():
        worth = row["main"].item.worth
        best = max(worth, key=worth.__getitem__)
        for probe, one in row.items():
            if one.label:
                given[probe].append(one.label == best)
                labels.add(one.label)
        if row["main"].label and row["again"].label and row["main"].label != row["again"].label:
            moved[worth[row["again"].label] > worth[row["main"].label]] += 1
    good = {probe: sum(found) / len(found) for probe, found in given.items()}
    if "readable" in below:
        return ("mute",)
    if moved[0] != moved[1] and (binomial_p(*moved) <= _DRIFT or (min(moved) == 0 and _changed(known))):
        return ("drifting",)
    if any(one.probe == "again" and one.share.value < least for one in shares):
        return ("noisy",)
    if "turned" in below:
        return ("goes by the order of the labels",)
    if len(labels) == 1:
        return (f"always says {labels.pop()!r}",)
    found = []
    short, long, own = (good.get(probe, 0.0) for probe in ("cut", "long", "shuffled"))
    if "long" in below and long - max(short, good.get("reference", 0.0)) >= _CLEAR:
        return ("goes by length",)
    if inverted:
        found.append(f"inverted on {', '.join(inverted)}")
    elif "shuffled" in below and own - max(short, long) >= _CLEAR:
        found.append("favours this run's answers")
    if "planted" in below:
        found.append("follows planted verdicts")
    return tuple(found) or ("does not tell right from wrong",)


def _changed(known: Sequence[str]) -> bool:
    """Whether the first label is given surely more or less often in the second half of verdicts than in the first."""
    half = len(known) // 2
    if not half:
        return False
    first, second = ([float(label == known[0]) for label in part] for part in (known[:half], known[half:]))
    made = group_difference(first, second)
    return made.low is not None and made.high is not None and (made.low > 0 or made.high < 0)
