"""The abstract of a comparison: what it says is what the corrected tests carry, and what is missing is counted."""

from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.compare.abstract import Abstract, abstract
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.findings import finding
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_words import lack_lines, missing_commands, verdict_lines, who_answered
from ragrounds.ui.tables.one_screen import conclusion_lines
from tests.compare.making import add_run, questions

ASKED = questions(40)


def right(count, rest=0):
    return [1] * count + [rest] * (40 - count)


def told(store, runs) -> tuple[Abstract, list[str], list[str]]:
    made = compare(store, runs)
    found, names = abstract(store, runs, made), agent_names(made)
    said = [who_answered(found, names), *verdict_lines(made, (), names)]
    return found, said, lack_lines(found, names)


def test_who_what_when_and_with_which_model_stand_in_the_first_sentence(store):
    low, high = (add_run(store, name, ASKED, right(count)) for name, count in (("low", 8), ("high", 36)))
    found, (first, second), lacks = told(store, [low, high])
    assert first == "2 systems (low and high) answered 40 questions of x with test:model on 1970-01-01."
    assert second.startswith("strict: high is significantly better than the other: 90.00 %, +70.00 points (95 %: +")
    assert not found.missing_results
    assert lacks == []


def test_each_model_and_imports_are_said(store):
    identity = {"models": {"model": "openai:x[temperature=0]"}}
    runs = [
        add_run(store, "own", ASKED, right(20)),
        add_run(store, "other", ASKED, right(20), identity=identity),
        add_run(store, "given", ASKED, right(20), origin="imported", identity={"model": "GPT-4"}),
    ]
    _, (first, *_), _ = told(store, runs)
    assert "with test:model, openai:x and GPT-4 on 1970-01-01;" in first
    assert first.endswith("the answers of 1 of them were made elsewhere and imported.")
    _, (alone, _), _ = told(store, runs[2:])
    assert alone.endswith("the answers were made elsewhere with GPT-4 and imported on 1970-01-01.")


def test_open_attempts_that_could_turn_a_difference_round_leave_nothing_concluded(store):
    high = add_run(store, "high", ASKED, right(36))
    broken = add_run(store, "broken", ASKED, right(8, ...))
    made = compare(store, [high, broken])
    assert made.tables[0].pairs[0].p_holm < 0.0001  # they count as not correct
    found, (_, said), (lack,) = told(store, [high, broken])
    (what,) = found.findings
    assert (what.kind, what.ahead, len(what.open)) == ("open", (), 1)
    assert "attempts that are still open could turn that round" in said
    assert "not significantly different" not in said  # the table marks the difference
    assert lack == "32 attempts are not made yet; they count as not correct (broken: 32 of 40)."
    assert found.missing_results
    assert missing_commands(found) == [f"ragrounds runs resume {broken.id}"]
    # Two that failed could not close a gap of 28.
    few = add_run(store, "few", ASKED, right(8), status={38: "failed", 39: "failed"})
    found, (_, said), (lack,) = told(store, [high, few])
    assert found.findings[0].kind == "ahead"
    assert lack == "2 attempts failed; they count as not correct (few: 2 of 40)."


def test_answers_that_no_judge_and_no_scorer_read_are_apart(store):
    long = [replace(one, kind="long", options={}) for one in ASKED]
    judged = add_run(store, "judged", long, [1.0] * 30 + [None] * 10, scorer="equivalent")
    found, _, (lack,) = told(store, [judged])
    assert lack.startswith("10 questions under equivalent are without a verdict of the judge; no mean counts them")
    assert missing_commands(found)[0].startswith("ragrounds judge ")
    # A judge that fails its probes is not paid again for the same verdicts.
    withheld = [replace(score, value=None, reason="withheld: judge says yes") for score in store.scores(judged)]
    store.add_scores(judged, withheld)
    found, _, (lack,) = told(store, [judged])
    assert lack.startswith("40 questions under equivalent are withheld, as the judge fails its probes")
    assert missing_commands(found) == []
    unread = add_run(store, "unread", ASKED, [1] * 30 + ["unscored"] * 10)
    _, _, (lack,) = told(store, [unread])
    assert lack.startswith("10 questions under strict are without a score; no mean counts them")


def test_nothing_is_said_of_runs_without_a_score(store):
    run: Run = add_run(store, "none", ASKED, [None] * 40)
    made = compare(store, [run])
    assert conclusion_lines(made, (), agent_names(made)) == ["No answer has a score yet."]
    assert not abstract(store, [run], made).findings


def test_where_lower_is_better_any_open_attempt_leaves_it_open(store):
    runs = [
        add_run(store, "few", ASKED, right(8), status={39: "failed"}),
        add_run(store, "many", ASKED, right(36)),
    ]
    table = replace(compare(store, runs).tables[0], direction="lower")
    found = finding(table)
    assert found.kind == "open"
    assert found.best.run == runs[0].id
