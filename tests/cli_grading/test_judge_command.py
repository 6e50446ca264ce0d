"""`ragrounds judge` and `judge agreement` over real HTTP on loopback."""

import csv
import io
import itertools
import json
import re

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.errors import StopRun
from ragrounds.base.records import Gold, Question
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.models.started_server import free_port
from ragrounds.prompts import loader
from tests.conftest import succeeded
from tests.judges.doubles import keep_run
from tests.servers.grader_server import grader_server
from tests.servers.process import openai_server

ANSWERS = ["methylene blue, of course", "give methylene blue", "exchange transfusion", None, "METHYLENE BLUE", "wait"]
STATEMENTS = (("fever is common",), ("rest helps",), ("aspirin is harmful", "nice to have"))


def stage(home, name, answers, *, facts=(), gold="methylene blue", epochs=1, model="openai:writer", asked="", number=1):
    meta = {"facts": "statements"} if facts else {}
    questions = [
        Question(id=f"og/{n}", benchmark="og", text=f"{n}?", kind="long", metadata=meta) for n in range(len(answers))
    ]
    golds = {question.id: Gold(question_id=question.id, answer=gold, facts=facts) for question in questions}
    more = {"agent": name, "number": number, "epochs": epochs, "identity": {"models": {"model": model}}}
    with Store(home) as store:
        keep_run(store, questions, golds, answers, questions=f"set {asked or name}", **more)


def values(home, name="direct", scorer="equivalent"):
    """Question id → its score."""
    with Store(home) as store:
        return {score.question_id: score.value for score in store.scores(store.run(name), scorer)}


RIGHT = {"og/0": 1.0, "og/1": 1.0, "og/2": 0.0, "og/3": 0.0, "og/4": 1.0, "og/5": 0.0}
"""Question id → the score of its answer in `ANSWERS`."""


@pytest.fixture(scope="module")
def grader():
    with grader_server() as running:
        yield running


@pytest.fixture
def judge(command, grader, home):
    """The command with this server for a judge, and a price list."""
    home.mkdir()
    (home / "prices.toml").write_text('["openai:grader"]\ninput = 1000\noutput = 1000\n')

    def run(*arguments):
        return command("judge", *arguments, "--base-url", grader.url)

    return run


def test_a_run_is_judged_billed_and_goes_on(judge, command, grader, home):
    stage(home, "direct", ANSWERS)
    before = grader.stats()["asked"]
    done = succeeded(judge("direct", "--kind", "equivalence", "--judge", "openai:grader"))
    assert grader.stats()["asked"] - before == 5  # what has no text is not put to the judge
    assert "equivalent:" in done.stdout
    assert "50.00" in done.stdout
    assert "6 answers judged by openai:grader" in done.stderr
    assert "5 model calls: 5 made now, 0 from the journal;" in done.stderr
    assert "paid $" in done.stderr
    assert "paid $0.00" not in done.stderr
    again = judge("direct", "--kind", "equivalence", "--judge", "openai:grader", "--json")
    graded = json.loads(again.stdout)["graded"]
    assert grader.stats()["asked"] - before == 5
    assert (graded["calls"], graded["reused"], graded["cost_paid"]) == (5, 5, 0.0)
    assert graded["cost_uncached"] == pytest.approx((graded["usage"]["input"] + graded["usage"]["output"]) / 1000)
    assert graded["same_model"] == []
    assert values(home) == RIGHT
    assert "equivalent" in command("compare", "direct", "--scorer", "equivalent").stdout


def test_a_judge_of_its_own_answers_is_flagged(judge, home):
    stage(home, "direct", ANSWERS, model="openai:grader[temperature=1]")
    done = judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    assert "Note: The judge is also the model that wrote these answers" in done.stderr


def test_the_papers_hallucination_rate_stands_beside_our_share(judge, command, home, tmp_path):
    """One answer contradicts 1 of 1 statements, one 1 of 4, one has no text: the paper counts 2 statements over all 3
    questions (the denominator of its program), our share is the mean of 1, 1/4 and 0."""
    stated = [("fever is common",), ("rest helps", "tea is warm", "fever is common", "aspirin works"), ("rest helps",)]
    meta = {"facts": "statements"}
    asked = [Question(id=f"kqa/{n}", benchmark="kqa", text=f"{n}?", kind="long", metadata=meta) for n in range(3)]
    golds = {
        one.id: Gold(question_id=one.id, answer="x", facts=tuple((text,) for text in texts))
        for one, texts in zip(asked, stated, strict=True)
    }
    with Store(home) as store:
        texts = ["Not fever is common.", "Not rest helps. Tea is warm.", None]
        keep_run(store, asked, golds, texts, benchmark="kqa")
    succeeded(judge("direct", "--kind", "statements", "--judge", "openai:grader"))
    shown = command("compare", "direct", "--full")
    assert re.search(r"hallucination-rate *\(?", shown.stdout)
    found = {table["scorer"]: table for table in json.loads(command("compare", "direct", "--json").stdout)["tables"]}
    rate, share = found["hallucination-rate"], found["contradiction"]
    assert (rate["unit"], rate["direction"], rate["lines"][0]["overall"]["n"]) == ("statements", "lower", 3)
    assert rate["lines"][0]["overall"]["value"] == pytest.approx(2 / 3)
    assert share["lines"][0]["overall"]["value"] == pytest.approx((1 + 1 / 4) / 3)
    row = next(line for line in shown.stdout.splitlines() if line.startswith("direct"))
    assert re.search(r" 0\.6667 +41\.67", row), shown.stdout
    page = tmp_path / "report.html"
    assert command("report", "direct", "--out", str(page)).returncode == 0
    assert "hallucination-rate (statements)" in page.read_text(encoding="utf-8")


def test_scores_of_before_get_the_papers_figure_without_asking(judge, command, home, grader):
    stage(home, "direct", ["Fever is common. Not rest helps."] * 6, facts=STATEMENTS)
    judge("direct", "--kind", "statements", "--judge", "openai:grader")
    with Store(home) as store, store.engine.begin() as connection:
        table = schema.scores
        connection.execute(sa.delete(table).where(table.c.scorer == "hallucination-rate"))
        connection.execute(sa.update(table).values(code="made by earlier code"))
    asked = grader.stats()["asked"]
    told = command("compare", "direct", "--json").stdout
    assert "hallucination-rate" in {table["scorer"] for table in json.loads(told)["tables"]}
    assert grader.stats()["asked"] == asked
    assert set(values(home, scorer="hallucination-rate").values()) == {1.0}


def test_a_panel(judge, home):
    stage(home, "direct", ANSWERS)
    panel = ("--judge", "openai:grader", "--judge", "openai:grader-mild")
    done = succeeded(judge("direct", "--kind", "equivalence", *panel, "--judge", "openai:grader-late"))
    assert "50.00" in done.stdout
    assert "5 answers judged, 0 without a majority; Fleiss' kappa" in done.stderr
    graded = json.loads(judge("direct", "--kind", "equivalence", *panel, "--json").stdout)["graded"]
    assert (graded["panel"]["undecided"], graded["missing"], graded["calls"]) == (2, 2, 10)
    twice = judge("direct", "--kind", "equivalence", *panel, *panel)
    assert twice.returncode == 2
    assert "given twice" in twice.stderr


def test_one_epoch_alone(judge, home):
    stage(home, "direct", ANSWERS, epochs=3)
    done = judge("direct", "--kind", "equivalence", "--judge", "openai:grader", "--epoch", "2", "--json")
    assert json.loads(done.stdout)["graded"]["attempts"] == 6
    assert "it has 3, counted from 0" in judge("direct", "--kind", "equivalence", "--epoch", "3").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("direct", "--kind", "equivalense"), "Did you mean 'equivalence'"),
        (("direct", "--kind", "equivalence"), "No judge was given"),
        (("direct", "--kind", "statements"), "No question of direct-1 has statements for a judge"),
        (("nobody", "--kind", "statements"), "nobody"),
        (("direct", "--kind", "equivalence", "--judge", "openai:grader", "--journal", "replay"), "not in the journal"),
    ],
)
def test_bad_input_is_one_line(judge, home, arguments, said):
    stage(home, "direct", ANSWERS)
    done = judge(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def filled(path, label):
    """As a person would: the sheet with their words in the column of labels."""
    found = rows(path)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows({**row, "label": label(row)} for row in found)


def with_answers(text, answers):
    """A sheet with a column of the answers, by the numbers of their questions."""
    heading, *lines = list(csv.reader(io.StringIO(text)))
    found = io.StringIO()
    rows = [[*heading, "answer"]]
    for line in lines:
        number = re.search(r"\d+", line[0])
        rows.append([*line, (answers[int(number.group())] or "") if number else ""])
    csv.writer(found).writerows(rows)
    return found.getvalue()


def test_agreement_with_people(judge, command, home, tmp_path):
    stage(home, "direct", ANSWERS)
    judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    text = (
        "item,anna,ben\nog/0,equivalent,equivalent\nog/1,Equivalent,equivalent\nog/2,equivalent,equivalent\n"
        "og/4,equivalent,mismatch\nog/5,mismatch,mismatch\nelse,mismatch,mismatch\n"
    )
    (tmp_path / "labels.csv").write_text(with_answers(text, ANSWERS))
    done = succeeded(command("judge", "agreement", "direct", "--human", "labels.csv"))
    assert "items with both labels: 4" in done.stdout
    assert "accuracy: 75.00 %" in done.stdout
    assert "Cohen's kappa: 0.500" in done.stdout
    assert "people without a majority: 1" in done.stdout
    found = json.loads(command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout)
    assert found["judge"]["confusion"] == {
        "equivalent": {"equivalent": 2, "mismatch": 1},
        "mismatch": {"equivalent": 0, "mismatch": 1},
    }
    one = json.loads(
        command("judge", "agreement", "direct", "--human", "labels.csv", "--rater", "anna", "--json").stdout
    )
    assert one["judge"]["n"] == 5


def test_agreement_by_statement(judge, command, home, tmp_path):
    stage(home, "direct", ["Fever is common. Not rest helps."] * 6, facts=STATEMENTS)
    judge("direct", "--kind", "statements", "--judge", "openai:grader")
    text = "item,a\nog/0#1,Entailment\nog/0#2,contradiction\nog/1#3,entailment\n"
    (tmp_path / "labels.csv").write_text(with_answers(text, ["Fever is common. Not rest helps."] * 6))
    arguments = ("judge", "agreement", "direct", "--kind", "statements", "--human", "labels.csv", "--json")
    found = json.loads(command(*arguments).stdout)
    assert found["judge"]["accuracy"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,a\nog/0,yes\n", "the label 'yes' is not one of equivalent, mismatch"),
        ("item,a\nelse,mismatch\n", "Items look like 'og/0'"),
        ("id,a\nelse,mismatch\n", "no column 'item'"),
    ],
)
def test_labels_that_do_not_fit(judge, command, home, tmp_path, text, said):
    stage(home, "direct", ANSWERS)
    (tmp_path / "labels.csv").write_text(with_answers(text, ANSWERS))
    arguments = ("judge", "agreement", "direct", "--human", "labels.csv")
    if "item,a" in text:
        assert command(*arguments).returncode == 2  # not judged yet, or a label of another kind
    judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    done = command(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_two_runs_are_judged_on_the_same_questions_within_a_budget(judge, grader, home):
    stage(home, "direct", ["methylene blue"] * 6, asked="both")
    stage(home, "cot", ["wait"] * 6, asked="both")
    before = grader.stats()["asked"]
    run = ["direct", "cot", "--kind", "equivalence", "--judge", "openai:grader"]
    done = succeeded(judge(*run, "--max-cost", "0.3", "--concurrency", "1", "--json"))
    assert "Ended early: the budget of $0.3 is used up" in done.stderr
    assert "All runs have verdicts on the same questions; the same command resumes." in done.stderr
    found = json.loads(done.stdout)
    first, second = found["graded"]
    assert first["left"] == second["left"] > 0
    assert first["attempts"] == 6 - first["left"]
    assert f"{2 * first['left']} answers not judged" in done.stderr
    lines = found["comparison"]["tables"][0]["lines"]
    assert [line["overall"]["missing"] for line in lines] == [first["left"]] * 2
    rest = succeeded(judge(*run, "--json"))
    assert [one["left"] for one in json.loads(rest.stdout)["graded"]] == [0, 0]
    assert grader.stats()["asked"] - before == 12


def edited_prompt(monkeypatch, words):
    """The prompt of equivalence with other words, as in another release."""
    real = loader._text

    def edited(place, file):
        text = real(place, file)
        return text and (text + words if file.startswith("judge/equivalent") else text)

    monkeypatch.setattr(loader, "_text", edited)


def test_a_judge_s_changed_prompt_is_named_and_asked_anew(judge, command, grader, home, monkeypatch):
    stage(home, "direct", ANSWERS)
    arguments = ("direct", "--kind", "equivalence", "--judge", "openai:grader")
    before = grader.stats()["asked"]
    judge(*arguments)
    assert "anew" not in command("compare", "direct").stdout
    with monkeypatch.context() as patch:
        edited_prompt(patch, "\nBe fair.\n")
        compared = command("compare", "direct", "--scorer", "equivalent").stdout
        assert "were made by another version of its code or prompt: `ragrounds judge direct-1" in " ".join(
            compared.split()
        )
        assert judge(*arguments).returncode == 0
        assert grader.stats()["asked"] - before == 10
        assert "anew" not in command("compare", "direct", "--scorer", "equivalent").stdout
    # Back again: every reply is recorded, so the scores are read again and nothing is asked.
    assert "anew" not in command("compare", "direct", "--scorer", "equivalent").stdout
    assert grader.stats()["asked"] - before == 10
    with Store(home) as store:
        assert len(store.score_codes(store.run("direct"))["equivalent"]) == 1
    assert values(home) == RIGHT


def test_verdicts_that_an_older_store_cannot_vouch_for_are_read_again_for_nothing(judge, command, grader, home):
    stage(home, "direct", ANSWERS)
    judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    asked = grader.stats()["asked"]
    with Store(home) as store, store.engine.begin() as connection:
        connection.execute(sa.update(schema.scores).values(code=None, value=0.5))
    assert "anew" not in command("compare", "direct", "--scorer", "equivalent").stdout
    assert values(home) == RIGHT
    assert grader.stats()["asked"] == asked


def test_a_store_that_cannot_be_written_is_read_all_the_same(judge, command, grader, home, monkeypatch):
    stage(home, "direct", ANSWERS)
    judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    with Store(home) as store:
        run = store.run("direct")
        store.add_scores(run, [replace(score, code="other") for score in store.scores(run)])

    def full(*arguments):
        raise StopRun("the disk is full")

    monkeypatch.setattr(Store, "add_scores", full)
    done = succeeded(command("compare", "direct", "--scorer", "equivalent"))
    assert "were made by another version of its code or prompt" in " ".join(done.stdout.split())


def test_another_server_that_judges_stops_or_judges_anew(command, home):
    stage(home, "written", ANSWERS)
    port = str(free_port())
    line = ("judge", "written", "--kind", "equivalence", "--judge", "openai:m", "--base-url")
    listed = [json.dumps([{"id": "m", "owned_by": "vllm", "root": root}]) for root in ("/weights/a", "/weights/b")]
    with openai_server("--port", port, "--listed", listed[0]) as server:
        first = command(*line, server.url)
        asked = server.stats()["asked"]
        assert asked > 0
        assert "calls were answered" not in first.stderr
    with openai_server("--port", port, "--listed", listed[1], "--says", "cheap") as server:
        stopped = command(*line, server.url)
        assert (stopped.returncode, server.stats()["asked"]) == (2, 0)
        assert "it reported root /weights/a, now root /weights/b" in stopped.stderr
        anew = command(*line, server.url, "--server-changed", "new", "--json")
        assert server.stats()["asked"] == asked
        assert "Note: the judge's calls were answered by cheap in" in anew.stderr
        assert "asked m" in json.loads(anew.stdout)["graded"]["other_models"][0]


def test_a_judge_that_says_the_same_of_everything_has_no_agreement(judge, command, home, tmp_path):
    stage(home, "direct", [*ANSWERS[:3], "rest", *ANSWERS[4:]])
    alone = judge("direct", "--kind", "equivalence", "--judge", "openai:grader-mild")
    assert re.search(r"grader-mild\[.*\] said 'equivalent' of all 6 answers it judged\. Nothing shows", alone.stderr)
    sheet = tmp_path / "labels.csv"
    assert command("judge", "sheet", "direct", "--out", str(sheet)).returncode == 0
    labels = itertools.cycle(("equivalent", "mismatch"))
    filled(sheet, lambda row: next(labels))
    told = command("judge", "agreement", "direct", "--human", str(sheet)).stdout
    assert "Cohen's kappa: -\n" in told
    assert "the judge said 'equivalent' of every item: kappa is not defined" in told
    agreed = json.loads(command("judge", "agreement", "direct", "--human", str(sheet), "--json").stdout)["judge"]
    assert (agreed["kappa"], agreed["constant"], agreed["accuracy"]["value"]) == (None, {"judge": "equivalent"}, 0.5)
    panel = ("--judge", "openai:grader", "--judge", "openai:grader-mild")
    both = json.loads(judge("direct", "--kind", "equivalence", *panel, "--json").stdout)["graded"]
    assert (both["panel"]["kappa"], both["panel"]["alpha"]) == (None, None)
    assert list(both["constant"].values()) == ["equivalent"]
    varied = json.loads(judge("direct", "--kind", "equivalence", "--judge", "openai:grader", "--json").stdout)["graded"]
    assert varied["constant"] == {}


def test_what_judging_cost_stands_beside_what_the_answers_cost(judge, command, home):
    stage(home, "direct", ANSWERS)
    stage(home, "cot", ANSWERS, asked="direct")
    before = command("compare", "direct", "cot", "--scorer", "rouge-l")
    assert "judging" not in before.stdout
    done = judge("direct", "--kind", "equivalence", "--judge", "openai:grader")
    paid = re.search(r"paid \$([\d.]+)", done.stderr)[1]
    assert "5 model calls: 5 made now" in done.stderr
    told = command("runs", "show", "direct", "--full").stdout
    assert f"${paid}" in told
    rows = json.loads(command("compare", "direct", "--json").stdout)["rows"]
    assert rows[0]["judging_calls"] == 5
    assert rows[0]["cost_judging"] == pytest.approx(float(paid), abs=0.01)
    shown = command("compare", "direct", "--full").stdout
    assert "judging: paid for judges of these answers, in no other column" in shown
    row = next(line for line in shown.partition("outcomes and cost")[2].splitlines() if line.startswith("direct"))
    assert f"${float(paid):.2f}" in row
    ledger = json.loads(command("ledger", "direct", "--by", "role", "--json").stdout)["lines"]
    assert next(line for line in ledger if line["role"] == "judging")["cost_paid"] == rows[0]["cost_judging"]
    csv_rows = list(csv.DictReader(io.StringIO(command("compare", "direct", "--csv").stdout)))
    assert [row["value"] for row in csv_rows if row["measure"] == "cost_judging"] == [str(rows[0]["cost_judging"])]


def test_a_run_judged_by_claims_and_citations_is_compared(command, grader, home, tmp_path):
    """From the run to the comparison: answers that cite by numbers, one of them a passage that was never shown."""
    corpus, questions = tmp_path / "corpus", tmp_path / "questions.jsonl"
    corpus.mkdir()
    passages = ["Blue corrects methaemoglobin. It is a dye.", "Dogs bark. They bite.", "Rest is good. Sleep well."]
    lines = [json.dumps({"_id": f"d{n}", "title": f"T{n}", "text": text}) for n, text in enumerate(passages)]
    (corpus / "corpus.jsonl").write_text("\n".join(lines))
    asked = ["What corrects methaemoglobin?", "What corrects methaemoglobin now?"]
    rows = [
        {"id": f"q{n}", "question": text, "kind": "long", "answer": "Blue corrects methaemoglobin. Rest helps."}
        for n, text in enumerate(asked)
    ]
    questions.write_text("\n".join(map(json.dumps, rows)))
    at = ("--base-url", grader.url)
    done = command(
        "run", "--benchmark", f"jsonl:{questions}", "--agent", "vanilla_rag[top_k=3]", "--corpus", f"beir:{corpus}",
        "--model", "openai:writer", *at, "--display", "none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged = ("judge", "vanilla_rag", "--judge", "openai:grader", *at)
    assert command(*judged, "--kind", "claims").returncode == 0
    labelled = tmp_path / "pairs.csv"
    labelled.write_text("text,claim,label\nDogs bark.,dogs bark,entailment\nDogs bark.,cats sleep,neutral\n")
    done = command("judge", "vanilla_rag", "--kind", "citations", "--verifier", "lexical", "--labelled", str(labelled))
    assert done.returncode == 0, done.stderr
    assert "2 answers judged by lexical; 0 scores missing." in done.stderr
    assert "accuracy: 100.00 %" in done.stdout
    claimed, fabricated = (values(home, "vanilla_rag", name) for name in ("claim-f1", "fabricated-citations"))
    assert fabricated == dict(zip(sorted(claimed), (1.0 * (len(text) % 2) for text in asked), strict=True))
    for name in ("claim-f1", "faithfulness", "citation-recall"):
        assert all(values(home, "vanilla_rag", name)[question] for question in fabricated), name
    never = command(*judged[:3], "openai:grader-never", *at, "--kind", "claims")
    assert never.returncode == 3
    assert "No verdict came from openai:grader-never" in never.stderr
    assert values(home, "vanilla_rag", "claim-f1") == claimed
    shown = command("compare", "vanilla_rag", "--scorer", "claim-f1", "--scorer", "fabricated-citations").stdout
    assert "judged by openai:grader" in shown
    assert "judged by lexical" in command("compare", "vanilla_rag", "--scorer", "citation-recall").stdout
    assert "in no passage: Rest helps" in command("show", "vanilla_rag", "q1").stdout
    wrong = command("judge", "vanilla_rag", "--kind", "equivalence", "--verifier", "lexical")
    assert wrong.returncode == 2
    assert "--verifier and --labelled are for claims and citations, not for --kind equivalence." in wrong.stderr
