"""Thresholds of judging at their edges: the last case on one side, and the first on the other."""

from types import SimpleNamespace

import pytest

from ragrounds.base.records import Call, Gold, Question, Score, Verdict
from ragrounds.evals.judges.attempts import FIRST, JudgedAnswer, JudgeTask, LabelJudge, UnreadableReplies
from ragrounds.evals.judges.bill import constant_judges
from ragrounds.evals.judges.gate import LEAST, JudgeGate, Probing, gated
from ragrounds.evals.judges.labels import read_labels
from ragrounds.evals.judges.probe_texts import PROBES, planned
from ragrounds.evals.judges.probe_texts import WRONG as WRONG_TEXTS
from ragrounds.evals.judges.probes import _WORDS, LEVEL, _failure_p, _Reply, gate, probe_runs
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
    (*WRONG_TEXTS, "planted"), WRONG
)


def tried(count):
    questions, golds, attempts = made(count, groups=1)
    return [(one, question, golds[question.id]) for one, question in zip(attempts, questions, strict=True)]


def replies(*answers, count=12):
    """Replies of an able judge to the probes of `count` answers; of the first ones with these labels instead."""
    rows = [ABLE | one for one in answers] + [ABLE] * (count - len(answers))
    items = list(planned(tried(14), EQUIVALENCE))[:count]
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


@pytest.mark.parametrize("probe", [probe for probe in _WORDS if probe != "readable"])
def test_a_judge_fails_a_kind_of_probe_if_an_able_one_would_hardly_fail_so_many(probe):
    # Of 12 with a chance of 10 % each, 6 failures or more have a chance of .05 %, 5 of .4 %: nine kinds share .5 %.
    assert _failure_p([("q", False)] * 0, LEAST) == 1
    assert _failure_p(outcomes(12, 6), LEAST) <= LEVEL / len(_WORDS) < _failure_p(outcomes(12, 5), LEAST)
    few, many = (gate("j", replies(*[{probe: other(ABLE[probe])}] * failed)) for failed in (5, 6))
    assert (few.withheld, few.undecided) == ("", (probe,))
    assert _WORDS[probe] in many.withheld
    assert many.undecided == ()
    assert gate("j", replies(*[{probe: other(ABLE[probe])}] * 12), 0.0).withheld == ""


@pytest.mark.parametrize(("failed", "undecided"), [(2, False), (3, False), (4, True), (5, True)])
def test_a_few_failures_are_those_of_an_able_judge_and_some_more_are_undecided(failed, undecided):
    # Of 12, 3 failures or more have a chance of 11 % with an able judge, 4 of 2.6 %.
    judged = gate("j", replies(*[{"turned": WRONG}] * failed))
    assert (judged.withheld, judged.undecided) == ("", ("turned",) * undecided)


def outcomes(count, failed):
    return [(str(number), number >= failed) for number in range(count)]


@pytest.mark.parametrize(("failed", "withheld"), [(4, False), (5, True)])
def test_all_probes_of_two_answers_together_withhold(failed, withheld):
    # Of 12 probes of known verdict, 5 failures or more have a chance of .4 % with an able judge, 4 of 2.6 %.
    kinds = ("exchanged", "empty", "long")
    wrong = [dict.fromkeys(kinds[: (failed + 1 - place) // 2], RIGHT) for place in range(2)]
    judged = gate("j", replies(*wrong, count=2))
    assert bool(judged.withheld) == withheld
    assert ("gives the verdict that is known in 7 of 12" in judged.withheld) == withheld


def test_answers_that_were_added_for_some_kinds_are_not_pooled():
    kinds = ("exchanged", "long", "empty")
    made = replies(ABLE, ABLE, *[dict.fromkeys(kinds, RIGHT)] * 4, count=10)
    whole = {reply.item.question.id for reply in made[: 2 * (1 + len(PROBES))]}
    some = [reply for reply in made if reply.item.question.id in whole or reply.probe in ("main", *kinds)]
    judged = gate("j", some)
    # 12 failures of 36 would withhold together; 4 of 10 of a kind are undecided.
    assert (judged.withheld, judged.undecided) == ("", kinds)
    second = [reply if reply.item.question.id in whole else reply._replace(step=2) for reply in made]
    assert gate("j", second).withheld == ""  # nor whole ones of the second step
    assert gate("j", made[: 3 * len(second) // 5]).withheld != ""


def test_replies_that_cannot_be_read_withhold_by_questions():
    unread = [dict.fromkeys(ABLE, "")]
    assert gate("j", replies(*unread * 5)).withheld == ""
    assert gate("j", replies(*unread * 6)).named == ("mute",)


def test_unread_replies_to_one_question_are_one_case_of_twelve():
    (share,) = (one.share for one in gate("j", replies(dict.fromkeys(ABLE, ""))).shares if one.probe == "readable")
    assert share.value == pytest.approx(11 / 12)
    assert share.low < 0.8  # of 12 questions; 121 of 132 replies would be above .84


@pytest.mark.parametrize(
    ("answers", "count", "named"),
    [
        ([{"again": WRONG}] * 4 + [{"again": RIGHT, "main": WRONG}] * 2, 8, "noisy"),  # 4 changes one way, 2 the other
        ([{"again": WRONG}] * 6, 9, "drifting"),  # 6 one way: p = .031
        ([{"again": WRONG, "turned": WRONG}] * 2 + [{"turned": WRONG}] * 8, 10, "depends on label order"),
        ([{"long": RIGHT, "reference": WRONG}] * 6 + [{"long": RIGHT}] * 6, 12, "depends on length"),
        ([{"long": RIGHT, "reference": WRONG}] * 5 + [{"long": RIGHT}] * 7, 12, NEITHER),
        ([{"shuffled": RIGHT, "exchanged": RIGHT}] * 6 + [{"shuffled": RIGHT}] * 6, 12, "favours this run's answers"),
        ([{"shuffled": RIGHT, "exchanged": RIGHT}] * 7 + [{"shuffled": RIGHT}] * 5, 12, NEITHER),
        ([{"planted": RIGHT}] * 12, 12, "follows planted verdicts"),
        ([dict.fromkeys((*WRONG_TEXTS, "planted"), RIGHT)] * 2, 2, "always says 'equivalent'"),
    ],
)  # fmt: skip
def test_what_a_failing_judge_is_called(answers, count, named):
    assert gate("j", replies(*answers, count=count)).named == (named,)


@pytest.mark.parametrize(("others", "named"), [(0, "noisy"), (1, "noisy"), (20, "drifting")])
def test_a_judge_drifts_if_its_verdicts_on_the_run_surely_change(others, named):
    labels = [RIGHT] * 20 + [WRONG] * others + [RIGHT] * (20 - others)
    verdicts = [Verdict(question_id=str(n), judge="j", axis="grade", first="r", outcome=label, reason="")
                for n, label in enumerate(labels)]  # fmt: skip
    changed = (
        [{"again": WRONG}] * 5 + [{"again": RIGHT, "main": WRONG}] * 1 if named == "noisy" else [{"again": WRONG}] * 5
    )
    assert gate("j", replies(*changed, count=8), LEAST, verdicts).named == (named,)


ABOVE = {"reference": WRONG, "shuffled": RIGHT, "exchanged": RIGHT, "empty": RIGHT}  # three of four wrong texts
HALF = {"reference": WRONG, "shuffled": RIGHT, "exchanged": RIGHT}


@pytest.mark.parametrize(
    ("answers", "count", "inverted"),
    [
        ([ABOVE], 1, False),  # twice or more
        ([ABOVE] * 2, 2, True),
        ([ABOVE] * 2, 4, False),  # half of the answers
        ([ABOVE] * 3, 5, True),
        ([HALF] * 4, 4, False),
        ([HALF | {"empty": ""}] * 4, 4, True),  # two of three
    ],
)
def test_a_judge_is_inverted_if_it_is_so_in_most_answers_and_twice(answers, count, inverted):
    assert ("inverted on subject 0" in gate("j", replies(*answers, count=count)).named) == inverted
    assert gate("j", replies(*answers, count=count), 0.0).withheld == ""


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
        (1, 139, 0), (1, 140, 2), (2, 139, 0), (2, 140, 2),  # calls of each judge, of which probes take a tenth
        (1, 299, 2), (1, 300, 3), (2, 300, 3), (1, 1020, 12), (1, 10_000, 12),
    ],
)  # fmt: skip
async def test_how_many_answers_are_probed(tmp_path, judges, calls, answers):
    stage(tmp_path, 14)
    with Store(tmp_path) as store:
        found = await probed(store, calls, judges=judges)
    assert [gate.answers for gate in found.gates] == [answers] * judges * (answers > 0)
    assert all(10 * gate.calls <= calls for gate in found.gates)
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
