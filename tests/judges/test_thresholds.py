"""Thresholds of judging at their edges: the last case on one side, and the first on the other."""

import math
from types import SimpleNamespace

import pytest

from ragrounds.base.records import Call, Gold, Question, Score, Verdict
from ragrounds.evals.judges.attempts import FIRST, JudgedAnswer, JudgeTask, LabelJudge, UnreadableReplies
from ragrounds.evals.judges.bill import constant_judges
from ragrounds.evals.judges.gate import LEAST, JudgeGate, Probing, gated
from ragrounds.evals.judges.labels import read_labels
from ragrounds.evals.judges.probes import _WORDS, _Reply, gate, planned, probe_runs
from ragrounds.evals.judges.verdict import NOTHING, Judgement, read_verdict
from ragrounds.evals.judges.verifiers import BY_NAME, AskedVerifier
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from tests.judges.doubles import Scripted
from tests.judges.test_probes import made, stage

CALL = Call(key="k", kind="model", role="judging", node="judge", actor="judge", at=1.0, seconds=0.1)
GRADE = VerdictForm(("grade",), ("equivalent", "mismatch"))
RIGHT, WRONG = GRADE.values
NEITHER = "does not tell right from wrong"
UNASKED = Probing()
ABLE = {"main": RIGHT, "again": RIGHT, "turned": RIGHT, "reference": RIGHT} | dict.fromkeys(
    ("shuffled", "long", "cut", "planted"), WRONG
)


def tried(count):
    questions, golds, attempts = made(count, groups=1)
    return [(one, question, golds[question.id]) for one, question in zip(attempts, questions, strict=True)]


def replies(*answers, count=12):
    """Replies of an able judge to the probes of `count` answers; of the first ones with these labels instead."""
    rows = [ABLE | one for one in answers] + [ABLE] * (count - len(answers))
    items = list(planned(tried(max(count, 2)), EQUIVALENCE))[:count]
    return [_Reply(item, probe, row[probe], 1) for item, row in zip(items, rows, strict=True) for probe in item.texts]


def other(label):
    return {RIGHT: WRONG, WRONG: RIGHT}[label]


@pytest.mark.parametrize(
    ("judges", "failing", "withheld"),
    [
        (1, 0, False),
        (1, 1, True),
        (2, 1, True),
        (3, 1, False),
        (3, 2, True),
        (4, 1, False),
        (4, 2, True),
        (5, 2, False),
    ],
)
def test_scores_are_withheld_if_half_of_a_panel_fails(judges, failing, withheld):
    score = Score(question_id="q", epoch=0, scorer="equivalent", value=1.0, answer_status="answered")
    gates = [JudgeGate(judge=str(n), noise="", withheld="fails" * (n < failing), words=()) for n in range(judges)]
    (shown,) = gated([score], gates)
    assert (shown.value is None, shown.reason.startswith("withheld: 0 fails")) == (withheld, withheld)


@pytest.mark.parametrize("probe", _WORDS)
def test_a_judge_fails_a_probe_if_the_upper_bound_is_below_the_least_share(probe):
    given = [{probe: other(ABLE[probe])}] * 3 if probe != "readable" else [dict.fromkeys(ABLE, "")] * 3
    (share,) = [one.share for one in gate("j", replies(*given)).shares if one.probe == probe]
    assert share.low < share.value < share.high < 1

    def least(bound):
        """The least share by which this probe has this bound: of unreadable verdicts half as many are allowed."""
        return bound if probe != "readable" else 2 * bound - 1

    margin = 0 if probe != "readable" else 1e-9
    touched, passed = (
        gate("j", replies(*given), least(bound))
        for bound in (share.high - margin, math.nextafter(share.high, 2) + margin)
    )
    assert (touched.withheld, probe in touched.undecided) == ("", True)
    assert _WORDS[probe] in passed.withheld
    assert probe not in passed.undecided
    reached, missed = (gate("j", replies(*given), least(share.value + step)) for step in (-margin, 1e-9))
    assert (probe in reached.undecided, probe in missed.undecided) == (False, True)


@pytest.mark.parametrize(("failed", "withheld", "undecided"), [(2, False, False), (4, False, True), (7, True, False)])
def test_of_twelve_answers(failed, withheld, undecided):
    # Wilson's upper ends at 95 %: 10 of 12 .95, 8 of 12 .86, 5 of 12 .68.
    found = gate("j", replies(*[{"turned": WRONG}] * failed), LEAST)
    assert (bool(found.withheld), found.undecided) == (withheld, ("turned",) * undecided)


@pytest.mark.parametrize(
    ("answers", "count", "least", "named"),
    [
        ([{"again": WRONG}] * 5, 8, LEAST, "noisy"),  # 5 changes one way: p = .0625
        ([{"again": WRONG}] * 6, 9, LEAST, "drifting"),  # 6: p = .031
        ([{"again": WRONG, "turned": WRONG}] * 2 + [{"turned": WRONG}] * 8, 10, 0.8, "depends on label order"),
        ([{"again": WRONG, "turned": WRONG}] * 3 + [{"turned": WRONG}] * 7, 10, 0.8, "noisy"),
        ([{"long": RIGHT, "reference": WRONG}] * 6 + [{"long": RIGHT}] * 6, 12, LEAST, "depends on length"),
        ([{"long": RIGHT, "reference": WRONG}] * 5 + [{"long": RIGHT}] * 7, 12, LEAST, NEITHER),
        ([{"shuffled": RIGHT, "cut": RIGHT}] * 6 + [{"shuffled": RIGHT}] * 6, 12, LEAST, "favours this run's answers"),
        ([{"shuffled": RIGHT, "cut": RIGHT}] * 7 + [{"shuffled": RIGHT}] * 5, 12, LEAST, NEITHER),
    ],
)  # fmt: skip
def test_what_a_failing_judge_is_called(answers, count, least, named):
    assert gate("j", replies(*answers, count=count), least).named == (named,)


@pytest.mark.parametrize(("others", "named"), [(0, "noisy"), (1, "noisy"), (20, "drifting")])
def test_a_judge_drifts_if_its_verdicts_on_the_run_surely_change(others, named):
    labels = [RIGHT] * 20 + [WRONG] * others + [RIGHT] * (20 - others)
    verdicts = [Verdict(question_id=str(n), judge="j", axis="grade", first="r", outcome=label, reason="")
                for n, label in enumerate(labels)]  # fmt: skip
    assert gate("j", replies(*[{"again": WRONG}] * 5, count=8), LEAST, verdicts).named == (named,)


ABOVE = {"reference": WRONG, "shuffled": RIGHT, "cut": RIGHT}  # two of three wrong texts above the reference
ONCE = {"reference": WRONG, "shuffled": RIGHT}


@pytest.mark.parametrize(
    ("answers", "count", "inverted"),
    [
        ([ABOVE], 1, False),  # twice or more
        ([ABOVE] * 2, 2, True),
        ([ABOVE] * 2, 4, False),  # half of the answers
        ([ABOVE] * 3, 5, True),
        ([ONCE] * 4, 4, False),  # one of three
        ([ONCE | {"cut": ""}] * 4, 4, False),  # half of two
    ],
)
def test_a_judge_is_inverted_if_it_is_so_in_most_answers_and_twice(answers, count, inverted):
    assert ("inverted on subject 0" in gate("j", replies(*answers, count=count)).named) == inverted
    assert gate("j", replies(*answers, count=count), 0.0).withheld == ""


@pytest.mark.parametrize(
    ("reference", "cut"),
    [("one two three four five six seven", ""), ("one two three four five six seven eight", "one two")],
)
def test_a_reference_is_cut_to_a_quarter_from_eight_words_on(reference, cut):
    attempt, question, gold = tried(1)[0]
    (item,) = planned([(attempt, question, Gold(question_id=gold.question_id, answer=reference))], EQUIVALENCE)
    assert item.texts["cut"] == cut


@pytest.mark.parametrize(
    ("letters", "long"), [(599, 599 + 2 + 599), (600, 600), (3999, 3999), (4000, 4000), (4001, 4000)]
)
def test_a_long_text_has_600_letters_and_at_most_4000(letters, long):
    given = [(attempt, question, Gold(question_id=gold.question_id, answer=str(n) * letters))
             for n, (attempt, question, gold) in enumerate(tried(4))]  # fmt: skip
    assert {len(item.texts["long"]) for item in planned(given, EQUIVALENCE)} == {long}


async def probed(store, calls, wish=UNASKED, judges=1):
    """Probe judges of a stored run of 14 answers, which took so many calls of each judge."""
    models = [Scripted(lambda prompt, occurrence: f'{{"grade": "{RIGHT}"}}', name=f"judge-{n}") for n in range(judges)]
    questions, golds, attempts = made(14)
    journal, run = StoreJournal(store), store.run("direct")
    tasks = {
        (0, number, place): JudgeTask(attempt, question, golds[question.id], model, journal)
        for number, (attempt, question) in enumerate(zip(attempts, questions, strict=True))
        for place, model in enumerate(models)
    }
    verdict = Verdict(question_id="og/0", judge="judge-0", axis="grade", first="r", outcome=RIGHT, reason="")
    first = JudgedAnswer(scores=(), verdicts=(verdict,), calls=(CALL,) * calls)
    judged = {key: first if key[1] == 0 else JudgedAnswer(scores=()) for key in tasks}
    admission = SimpleNamespace(affords=lambda task: True, judged=lambda *_: None, ended="")
    by, prompts = LabelJudge(EQUIVALENCE), PromptFolder()
    found = await probe_runs(store, [run], by, tasks, judged, wish, prompts, 16, admission)
    journal.close()
    return found[0]


@pytest.mark.parametrize(
    ("judges", "calls", "answers"),
    [
        (1, 99, 0), (1, 100, 6), (2, 99, 0), (2, 100, 6),  # calls of each judge
        (1, 489, 6), (1, 490, 7), (2, 489, 6),  # a tenth of the calls, seven for an answer
        (1, 840, 12), (1, 10_000, 12),
    ],
)  # fmt: skip
async def test_how_many_answers_are_probed(tmp_path, judges, calls, answers):
    stage(tmp_path, 14)
    with Store(tmp_path) as store:
        found = await probed(store, calls, judges=judges)
    assert [one.answers for one in found.gates] == [answers] * judges * (answers > 0)
    assert ("calls are few" in found.unprobed) == (answers == 0)


@pytest.mark.parametrize(("answers", "known"), [(5, False), (6, True)])
async def test_recorded_probes_of_six_answers_vouch_for_a_judge(tmp_path, answers, known):
    stage(tmp_path, 14)
    with Store(tmp_path) as store:
        await probed(store, 14, Probing(answers=answers))
        assert bool((await probed(store, 14)).gates) == known


def count_unreadable(replies, patient=False):
    counted = UnreadableReplies(patient)
    said = Judgement(values={}, reasons={"grade": NOTHING}, calls=(CALL,) * replies)
    counted.count("judge", GRADE, said)
    return counted.given_up("judge")


def test_a_judge_is_given_up_after_its_first_twenty_replies():
    assert [count_unreadable(FIRST - 1), count_unreadable(FIRST), FIRST] == [False, True, 20]
    assert not count_unreadable(FIRST, patient=True)


@pytest.mark.parametrize(("count", "read"), [(200, 200), (201, 0)])
async def test_a_text_has_at_most_200_claims(tmp_path, count, read):
    listed = '{"claims": [' + ", ".join(f'"Claim {n}."' for n in range(count)) + "]}"
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        question = Question(id="q", benchmark="q", text="Which?", kind="long")
        asked = AskedVerifier(Scripted(lambda prompt, occurrence: listed), journal, PromptFolder(), question)
        claims, why = await asked.split("A text.")
        journal.close()
    assert (len(claims), why) == (read, "" if read else "no list of claims in the reply")


@pytest.mark.parametrize(
    ("claim", "entailed"),
    [
        ("fever pain rash cough", True),  # three of four words
        ("fever pain cough", False),  # two of three
        ("fever its", True),  # words of three letters do not count
        ("fever rest", False),  # those of four do
        ("fever 7", False),  # and every number does
    ],
)
async def test_three_quarters_of_the_words_entail_a_claim(claim, entailed):
    ((label, _),) = await BY_NAME["lexical"]("Fever, pain and rash.", [claim])
    assert label == ("entailment" if entailed else "neutral")


@pytest.mark.parametrize(("labels", "constant"), [(["a"], {}), (["a", "a"], {"j": "a"}), (["a", "a", "b"], {})])
def test_a_judge_is_constant_from_two_equal_labels_on(labels, constant):
    given = [Verdict(question_id="q", judge="j", axis="x", first="r", outcome=one, reason="") for one in labels]
    assert constant_judges(given) == constant


@pytest.mark.parametrize(("chance", "fits"), [("0", False), ("0.001", True), ("1", True), ("1.001", False)])
def test_a_chance_is_above_0_and_at_most_1(tmp_path, chance, fits):
    (tmp_path / "labels.csv").write_text(f"item,chance,a\n1,{chance},x\n")
    if fits:
        labels = read_labels(tmp_path / "labels.csv")
        assert labels.marks["1"].chance == float(chance)
        assert (labels.alpha, labels.kappa) == (None, None)  # of a single person
    else:
        with pytest.raises(Exception, match="is not a number above 0 and at most 1"):
            read_labels(tmp_path / "labels.csv")


def test_of_a_reply_the_last_50_000_letters_are_read():
    verdict = '{"grade": "mismatch"}'
    for more, values in ((0, {"grade": WRONG}), (len(verdict), {})):
        assert read_verdict(verdict + " " * (50_000 - len(verdict) + more), GRADE).values == values
