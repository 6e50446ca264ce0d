"""`ragrounds judge sheet`: what people label, blind, safe in a spreadsheet, and read back."""

import csv
import json

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Score
from ragrounds.evals.judges.labels import item_code
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.store.store import Store
from tests.cli_grading.test_judge_command import ANSWERS, STATEMENTS, filled, rows, stage
from tests.conftest import succeeded
from tests.servers.grader_server import grader_server

HOSTILE = ['=HYPERLINK("http://x.example","methylene blue")', "+1", "-1 methylene blue", "@SUM(A1)", "\t=1", "a\n=1;=2"]


def graded(home, values, scorer="equivalent", prediction=None, name="direct"):
    said, given = {1.0: "equivalent", 0.0: "mismatch"}, {"epoch": 0, "scorer": scorer, "answer_status": "answered"}
    scores = [
        Score(question_id=f"og/{number}", value=value, prediction=prediction or said.get(value, ""), **given)
        for number, value in enumerate(values)
    ]
    with Store(home) as store:
        store.add_scores(store.run(name), scores)


def judged_run(home, name, answers=ANSWERS, count=6):
    """A run on the questions of other such runs, whose first `count` answers a judge has found equivalent."""
    stage(home, name, answers, asked="same")
    graded(home, [1.0] * count, name=name)


def test_a_sheet_is_blind_and_read_back(command, home, tmp_path):
    stage(home, "direct", ANSWERS)
    graded(home, [1.0, 1.0, 0.0, None, 0.0, None])
    done = succeeded(command("judge", "sheet", "direct", "--json"))
    assert json.loads(done.stdout) == {
        "version": 2, "file": "labels.csv", "items": 4, "of": 4, "labels": ["equivalent", "mismatch"],
        "answers": {"direct-1": 4},
    }  # fmt: skip
    needed = "A corrected figure needs 20 labelled answers of each agent; the sheet has 4 of direct-1. Too few:"
    assert needed in " ".join(done.stderr.split())
    sheet = rows(tmp_path / "labels.csv")
    marks = ["code", "epoch", "digest", "chance"]
    assert list(sheet[0]) == ["item", "question", "beside", "answer", "allowed", *marks, "label"]
    assert {tuple(row[name] for name in marks[:2]) for row in sheet} == {
        (item_code("direct-1", f"og/{number}"), "0") for number in (0, 1, 2, 4)
    }
    assert {row["item"] for row in sheet} == {"og/0", "og/1", "og/2", "og/4"}
    assert {row["answer"] for row in sheet} == {ANSWERS[number] for number in (0, 1, 2, 4)}
    assert {(row["beside"], row["allowed"], row["label"]) for row in sheet} == {
        ("methylene blue", "equivalent | mismatch", "")
    }
    # The same rows in the same order whatever the judge said.
    with Store(home) as store:
        run = store.run("direct")
        store.add_scores(
            run, [replace(score, prediction="mismatch", value=0.0) for score in store.scores(run) if score.prediction]
        )
    before = (tmp_path / "labels.csv").read_bytes()
    assert command("judge", "sheet", "direct", "--out", "again.csv").returncode == 0
    assert (tmp_path / "again.csv").read_bytes() == before
    graded(home, [1.0, 1.0, 0.0, None, 0.0, None])
    empty = command("judge", "agreement", "direct", "--human", "labels.csv")
    assert empty.returncode == 2
    assert "it holds no labels" in empty.stderr
    filled(tmp_path / "labels.csv", lambda row: "Equivalent" if "blue" in row["answer"].lower() else "mismatch")
    found = json.loads(command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout)
    assert found["judge"]["accuracy"]["value"] == 0.75  # og/4 says METHYLENE BLUE, and the judge a mismatch
    filled(tmp_path / "labels.csv", lambda row: "mismatch" if row["item"] == "og/2" else "")
    found = json.loads(command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout)
    assert (found["judge"]["n"], found["undecided"], found["unmatched"]) == (1, 0, 0)


def test_a_label_is_of_the_answer_and_not_of_the_id(command, home, tmp_path):
    for name in ("direct", "twin", "other"):
        judged_run(home, name, [f"{text} or so" for text in ANSWERS] if name == "other" else ANSWERS)
    assert command("judge", "sheet", "direct").returncode == 0
    filled(tmp_path / "labels.csv", lambda row: "equivalent")

    def agreed(name):
        return command("judge", "agreement", name, "--human", "labels.csv", "--json")

    assert json.loads(agreed("direct").stdout)["judge"]["n"] == 6
    assert json.loads(agreed("twin").stdout)["judge"]["n"] == 6, "the same answers, whoever gave them"
    refused = agreed("other")
    assert refused.returncode == 2
    assert "6 of 6 labelled items" in refused.stderr
    with Store(home) as store:
        run = store.run("direct")
        (second,) = (one for one in store.attempts(run) if one.question_id == "og/1")
        store.add_attempts(run, [replace(second, text="something else")])
    found = json.loads(agreed("direct").stdout)
    assert (found["judge"]["n"], found["changed"]) == (5, ["og/1"])
    told = command("judge", "agreement", "direct", "--human", "labels.csv").stdout
    assert "left out, the answer differs from the labelled one: 1 (og/1)" in told


def test_several_runs_are_one_sheet_and_one_agreement(command, home, tmp_path):
    """Both say the same of og/0; elsewhere the second run's answers are others."""
    for name, answers in (("direct", ANSWERS), ("other", [ANSWERS[0], *(f"{text} or so" for text in ANSWERS[1:])])):
        judged_run(home, name, answers)
    done = command("judge", "sheet", "direct", "other")
    assert "12 of 12 judged answers" in done.stderr
    assert "ragrounds judge agreement direct other --kind equivalence --human labels.csv" in done.stderr
    assert {(row["code"], row["item"]) for row in rows(tmp_path / "labels.csv")} == {
        (item_code(run, f"og/{n}"), f"og/{n}") for run in ("direct-1", "other-1") for n in range(6)
    }
    filled(
        tmp_path / "labels.csv",
        lambda row: "equivalent" if row["code"] == item_code("direct-1", row["item"]) else "mismatch",
    )

    def agreed(*runs):
        return json.loads(command("judge", "agreement", *runs, "--human", "labels.csv", "--json").stdout)

    both = agreed("direct", "other")
    assert (both["judge"]["n"], both["judge"]["accuracy"]["value"], both["unmatched"]) == (12, 0.5, 0)
    # Of one run alone its own labels count, also where the other gave the same text.
    for name, right in (("direct", 1.0), ("other", 0.0)):
        alone = agreed(name)
        assert (alone["judge"]["n"], alone["judge"]["accuracy"]["value"], alone["changed"]) == (6, right, [])
    # A sheet of one run counts for every run that gave the same text.
    assert command("judge", "sheet", "direct", "--force").returncode == 0
    filled(tmp_path / "labels.csv", lambda row: "equivalent")
    assert agreed("direct", "other")["judge"]["n"] == 7


def test_no_column_and_no_order_of_a_sheet_reveals_the_system(command, home, tmp_path):
    """Another number of judged answers, and a limit within a question, would show in probabilities of each run."""
    for name, judged in (("direct", 6), ("vanilla_rag", 4)):
        judged_run(home, name, [f"{text}, says {len(name)}" for text in ANSWERS], judged)
    succeeded(command("judge", "sheet", "direct", "vanilla_rag", "--limit", "9", "--seed", "3"))
    text, sheet = (tmp_path / "labels.csv").read_text(encoding="utf-8-sig"), rows(tmp_path / "labels.csv")
    for revealing in ("direct", "vanilla_rag"):
        assert revealing not in text
    assert len({row["chance"] for row in sheet}) == 1
    assert len({row["code"] for row in sheet}) == len(sheet) == 9
    firsts = [
        row["answer"] for index, row in enumerate(sheet) if row["item"] not in {one["item"] for one in sheet[:index]}
    ]
    assert len({answer.rpartition(" ")[2] for answer in firsts}) == 2, "neither run is always the first of a question"


def test_a_sheet_that_names_its_runs_is_still_read(command, home, tmp_path):
    for name in ("direct", "other"):
        judged_run(home, name, [f"{text} by {name}" for text in ANSWERS])
    assert command("judge", "sheet", "direct", "other").returncode == 0
    run_by_code = {item_code(run, f"og/{n}"): run for run in ("direct-1", "other-1") for n in range(6)}
    with (tmp_path / "old.csv").open("w", newline="") as file:
        found = rows(tmp_path / "labels.csv")
        writer = csv.DictWriter(file, [{"code": "run"}.get(name, name) for name in found[0]])
        writer.writeheader()
        for row in found:
            run = run_by_code[row.pop("code")]
            writer.writerow({**row, "run": run, "label": "equivalent" if run == "direct-1" else "mismatch"})
    done = command("judge", "agreement", "direct", "other", "--human", "old.csv", "--json")
    shares = {one["name"]: one["agreement"]["accuracy"]["value"] for one in json.loads(done.stdout)["categories"]}
    assert shares == {"direct-1": 1.0, "other-1": 0.0}


def test_of_an_agents_text_the_newest_judged_run_is_meant(command, home, tmp_path):
    stage(home, "direct", ANSWERS)
    graded(home, [1.0] * 6)
    stage(home, "direct", ANSWERS, number=2)
    succeeded(command("judge", "sheet", "direct"))
    codes = {row["code"] for row in rows(tmp_path / "labels.csv")}
    assert codes == {item_code("direct-1", f"og/{n}") for n in range(6)}
    refused = command("judge", "sheet", "direct-2", "--out", "none.csv")
    assert "judge it first" in refused.stderr


def test_an_older_sheet_goes_by_its_texts_and_one_without_is_refused(command, home, tmp_path):
    stage(home, "direct", ANSWERS)
    graded(home, [1.0] * 6)
    assert command("judge", "sheet", "direct").returncode == 0
    filled(tmp_path / "labels.csv", lambda row: "equivalent")
    whole = rows(tmp_path / "labels.csv")

    def kept(*names, **changed):
        with (tmp_path / "old.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows({**row, **changed} for row in whole)
        return command("judge", "agreement", "direct", "--human", "old.csv", "--json")

    assert json.loads(kept("item", "answer", "label").stdout)["judge"]["n"] == 6
    assert "6 of 6 labelled items" in kept("item", "answer", "label", answer="that").stderr
    assert "it is unknown which answer was labelled as 'og/" in kept("item", "label").stderr


def judged_by(command, *judges):
    """Both judges alone, then as a panel, which has no majority where they disagree."""
    with grader_server() as server:
        given = ["judge", "direct", "--kind", "equivalence", "--base-url", server.url]
        for name in judges:
            assert command(*given, "--judge", f"openai:{name}").returncode == 0
        assert command(*given, *(f"--judge=openai:{name}" for name in judges)).returncode == 0


def test_items_that_a_panel_has_no_majority_on_are_in_the_sheet(command, home, tmp_path):
    stage(home, "direct", [f"{'methylene blue' if n == 3 else 'no idea'} {n}" for n in range(6)])
    judged_by(command, "grader", "grader-mild")  # the mild one finds all equivalent
    done = command("judge", "sheet", "direct")
    assert "6 of 6 judged answers, without the verdicts" in done.stderr
    assert len({row["digest"] for row in rows(tmp_path / "labels.csv")}) == 6


def test_a_sample_goes_by_its_seed(command, home, tmp_path):
    stage(home, "direct", ANSWERS)
    graded(home, [1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    for name, limit, seed in (("a", "3", "1"), ("b", "5", "1"), ("c", "5", "2")):
        done = command(
            "judge", "sheet", "direct", "-o", f"{name}.csv", "--limit", limit, "--seed", seed, "--rater", "anna",
            "--rater", "ben",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"{limit} of 6 judged answers" in done.stderr
        assert "Items on which the two raters differ have no majority and are left out" in done.stderr
    items = {name: [row["item"] for row in rows(tmp_path / f"{name}.csv")] for name in "abc"}
    assert items["a"] == items["b"][:3]
    assert items["b"] != items["c"]
    assert list(rows(tmp_path / "a.csv")[0])[-2:] == ["anna", "ben"]


def test_no_cell_is_a_formula_and_hostile_items_are_read_back(command, home, tmp_path):
    stage(home, "direct", HOSTILE, gold="=1+1")
    graded(home, [1.0] * 6)
    assert command("judge", "sheet", "direct").returncode == 0
    for row in rows(tmp_path / "labels.csv"):
        for cell in row.values():
            for part in cell.split(";"):
                assert not part.lstrip().startswith(("=", "+", "-", "@"))
    filled(tmp_path / "labels.csv", lambda row: "equivalent")
    found = json.loads(command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout)
    assert found["judge"]["n"] == 6


def test_statements_one_by_one(command, home, tmp_path):
    stage(home, "direct", ["An answer."] * 6, facts=STATEMENTS)
    graded(home, [0.0], scorer="contradiction", prediction="0/3: entailment, ?, neutral")
    succeeded(command("judge", "sheet", "direct", "--kind", "statements"))
    assert {(row["item"], row["beside"]) for row in rows(tmp_path / "labels.csv")} == {
        ("og/0#1", "fever is common"), ("og/0#3", "aspirin is harmful"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kind", "ragas"), "gives numbers"),
        (("--epoch", "3"), "has no scores under"),
        (("--rater", "answer"), "cannot have a column"),
        (("--out", "there.csv"), "already exists"),
    ],
)
def test_what_cannot_be_written(command, home, tmp_path, arguments, said):
    stage(home, "direct", ANSWERS)
    graded(home, [1.0] * 6)
    (tmp_path / "there.csv").write_text("item,anna\nog/0,equivalent\n")
    done = command("judge", "sheet", "direct", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert (tmp_path / "there.csv").read_text() == "item,anna\nog/0,equivalent\n"


def test_every_kind_with_labels_says_what_an_item_is_set_against():
    assert {name for name, kind in judge_methods().items() if kind.labels} == {
        "equivalence",
        "equivalence-published",
        "rubric",
        "statements",
    }
