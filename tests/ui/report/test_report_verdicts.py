"""Judges in the report: verdicts by judge and axis, their agreement with each other."""

import asyncio
import json
import re
from html import unescape

import pytest

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.recorded import JudgeFinder, ScoreJudges, recorded_verdicts
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from ragrounds.evals.stats import stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.ui.report.methods import methods
from ragrounds.ui.report.page import PageOptions, report_page
from ragrounds.ui.tables.comparison_words import judge_phrase, verdict_lines
from tests.cli_grading.test_judge_command import STATEMENTS, stage
from tests.judges.doubles import Scripted, judge_stored

ANSWERS = ["blue one", "blue two", "red three", None, "blue five", "rot"]


def says(judge):
    """Equivalent where the answer holds the word that this judge looks for."""

    def say(prompt, occurrence):
        answer = prompt.rpartition("<<<\n")[2].partition("\n>>>")[0]
        if judge == "silent" and "two" in answer:
            return "Hm."
        held = {"strict": "blue", "silent": "blue", "mild": "e", "odd": "r"}[judge] in answer
        return json.dumps({"grade": "equivalent" if held else "mismatch"})

    return Scripted(say, name=f"test:<b>{judge}</b>")


def judged(home, *judges, grader=None):
    with Store(home) as store:
        asyncio.run(judge_stored(store, [store.run("direct")], judges, grader))


def shown(home, **more):
    with Store(home) as store:
        runs = [store.run("direct")]
        page = "".join(report_page(store, runs, compare(store, runs), PageOptions(attempts=False, **more)))
    body = page.partition('<section id="judges">')[2].partition("</section>")[0]
    rows = [
        [unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", re.sub(r"<thead>.*?</thead>", "", body))
    ]
    return body, [row for row in rows if row]


def test_by_judge_with_agreement(home):
    stage(home, "direct", ANSWERS)
    judged(home, says("strict"), says("mild"), says("odd"))
    body, rows = shown(home)
    by_judge = {row[0]: row for row in rows if row[1] == "grade"}
    assert set(by_judge) == {"as scored (majority)", "test:<b>strict</b>", "test:<b>mild</b>", "test:<b>odd</b>"}
    assert "<b>" not in body  # a judge's name is text
    # The answer without a text was put to nobody.
    assert by_judge["test:<b>strict</b>"][:5] == ["test:<b>strict</b>", "grade", "5", "0", "60.0"]
    assert by_judge["test:<b>mild</b>"][4] == "80.0"
    pairs = {frozenset(row[:2]): row for row in rows if row[1] != "grade"}
    assert len(pairs) == 3
    opposed = pairs[frozenset({"test:<b>strict</b>", "test:<b>odd</b>"})]
    assert opposed[2:4] == ["5", "0.0"]
    assert float(opposed[5]) == pytest.approx(-12 / 13, abs=0.005)  # 0 seen, 12/25 by chance


def test_a_second_judge_replaces_scores_and_the_first_ones_verdicts_stay(home):
    stage(home, "direct", ANSWERS)
    judged(home, says("strict"))
    judged(home, says("silent"))
    _, rows = shown(home)
    by_judge = {row[0]: row[2:5] for row in rows if row[1] == "grade"}
    assert by_judge == {
        "test:<b>silent</b> (as scored)": ["4", "1", "50.0"],
        "test:<b>strict</b>": ["5", "0", "60.0"],
    }
    pair = next(row for row in rows if row[1] != "grade")
    assert pair[2:4] == ["4", "100.0"]


def test_methods_say_what_a_judge_did_and_what_is_missing(home):
    stage(home, "direct", ANSWERS)
    judged(home, says("silent"))
    with Store(home) as store:
        runs = [store.run("direct")]
        said = " ".join(methods(compare(store, runs), runs, ["equivalent", "ragas_context_recall"]))
    assert "the share of answers that a judge found equivalent" in said
    assert "ragas 0.4.3, context recall, by a judge" in said
    assert "Scores that are missing" in said


def test_the_judge_behind_the_scores_is_named_and_no_other(home):
    stage(home, "direct", ANSWERS)
    judged(home, says("mild"))
    judged(home, Scripted(lambda prompt, occurrence: "Hm.", name="test:mute"))
    judged(home, says("strict"))
    with Store(home) as store:
        runs = [store.run("direct")]
        page = unescape("".join(report_page(store, runs, compare(store, runs), PageOptions(attempts=False))))
    methods_said = page.partition('<section id="methods">')[2].partition("</section>")[0]
    assert "under equivalent were given by test:<b>strict</b>." in methods_said
    others = methods_said.partition("without a part in these scores: ")[2].partition(".")[0]
    assert others.split(", ") == ["test:<b>mild</b>", "test:mute"]
    lead = page.partition('<section id="abstract">')[2].partition("</section>")[0].replace("\xa0", " ")
    assert "; judged by test:<b>strict</b>." in lead


def test_judges_that_said_the_same_are_not_told_apart(home):
    stage(home, "direct", ANSWERS)
    for name in ("test:one", "test:two"):
        judged(home, Scripted(lambda prompt, occurrence: json.dumps({"grade": "mismatch"}), name=name))
    with Store(home) as store:
        found = JudgeFinder(store)(store.run("direct"), "equivalent")
    assert found == ScoreJudges(("test:one", "test:two"), known=False)
    assert judge_phrase(found) == "test:one or test:two: the store does not say"


def test_statements_by_axis(home):
    stage(home, "direct", ["An answer."] * 6, facts=STATEMENTS)
    said = {STATEMENTS[0][0]: "entailment", STATEMENTS[1][0]: "neutral", STATEMENTS[2][0]: "contradiction"}
    judge = Scripted(
        lambda prompt, occurrence: json.dumps(
            {"s1": next(label for text, label in said.items() if f"<<<\n{text}\n>>>" in prompt)}
        )
    )
    judged(home, judge, grader=LabelJudge(STATEMENT_METHOD))
    _, rows = shown(home)
    axes = {row[1]: row for row in rows if row[0] == "judge (as scored)"}
    # Six answers with two statements each, of which one is always entailed and none contradicted.
    half, none = (
        stratified_mean(values * 6, clusters=[str(place // 2) for place in range(12)])
        for values in ([1.0, 0.0], [0.0, 0.0])
    )
    ends = [f"{100 * made.low:.1f}-{100 * made.high:.1f}" for made in (half, half, none)]
    assert axes["must have"][2:] == ["12", "0", "50.0", ends[0], "50.0", ends[1], "0.0", ends[2]]
    assert ends[2] == "0.0-44.3"  # as of six alone
    assert axes["nice to have"][2] == "6"
    assert axes["nice to have"][8] == "100.0"


def test_nothing_is_shown_of_runs_that_nobody_judged(home):
    stage(home, "direct", ANSWERS)
    body, _ = shown(home)
    assert body == ""


def test_no_model_is_asked_and_other_epochs_do_not_count(home):
    stage(home, "direct", ANSWERS, epochs=2)
    judge = says("strict")
    judged(home, judge)
    asked = len(judge.requests)
    with Store(home) as store:
        run = store.run("direct")
        (said,) = recorded_verdicts(store, run, judge_methods()["equivalence"], 1)
        assert recorded_verdicts(store, run, judge_methods()["statements"]) == []
    assert len(judge.requests) == asked
    assert said.verdicts == {
        "og/0": "equivalent", "og/1": "equivalent", "og/2": "mismatch", "og/4": "equivalent", "og/5": "mismatch",
    }  # fmt: skip


def test_a_judge_without_any_verdict_is_named_and_in_no_agreement(home):
    stage(home, "direct", ANSWERS)
    judged(home, Scripted(lambda prompt, occurrence: "Hm.", name="test:mute"))
    judged(home, says("strict"), says("mild"))
    body, rows = shown(home)
    assert "direct: test:mute gave no verdict at all; it is in no agreement." in unescape(body)
    pairs = [row[:2] for row in rows if row[1] != "grade"]
    assert [set(pair) for pair in pairs] == [{"test:<b>strict</b>", "test:<b>mild</b>"}]
    # The first line of a comparison says how many questions have no score.
    with Store(home) as store:
        lines = list(verdict_lines(compare(store, [store.run("direct")]), ["equivalent"], {"direct-1": "direct"}))
    assert lines == [
        "equivalent: direct has 60.00 % (95 %: 22.9 to 88.4), 5 questions; 1 of 6 attempts failed, at best 80.00; "
        "1 more has no score; "
        "judged by the majority of test:<b>mild</b> and test:<b>strict</b>."
    ]
