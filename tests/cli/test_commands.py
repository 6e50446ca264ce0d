"""The command line on the embedded default and on real data: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, succeeded


@pytest.mark.parametrize("display", ["plain", "json", "none", "full"])
def test_progress_goes_to_stderr_and_results_to_stdout(command: Cli, display: str) -> None:
    done = succeeded(command("run", "--limit", "4", "--display", display, "--json", NO_COLOR="1"))
    json.loads(done.stdout)
    assert "\x1b[3" not in done.stderr
    if display == "plain":
        assert "12 of 12 attempts" in done.stderr
    if display == "json":
        line = next(line for line in done.stderr.splitlines() if line.startswith("{"))
        assert sum(run["done"] for run in json.loads(line)["runs"].values()) == 12


def test_score_scores_again_without_a_model_and_only_what_a_scorer_is_for(command: Cli) -> None:
    assert command("run", "--agent", "direct", "--display", "none").returncode == 0
    done = succeeded(command("score", "direct", "--scorer", "mirage-pmc-llama", "--scorer", "facts", "--json"))
    lines = {table["scorer"]: table["lines"][0] for table in json.loads(done.stdout)["tables"]}
    assert lines["mirage-pmc-llama"]["overall"]["n"] == 89
    assert lines["facts"]["overall"]["n"] == 18
    unknown = command("score", "direct", "--scorer", "stric")
    assert unknown.returncode == 2
    assert "'strict'" in unknown.stderr


def test_runs_on_different_questions_are_not_compared_silently(command: Cli) -> None:
    for limit in ("5", "9"):
        command("run", "--limit", limit, "--agent", "direct", "--display", "none")
    ids = [entry["run"]["id"] for entry in json.loads(command("runs", "ls", "--json").stdout)["runs"]]
    refused = command("compare", *ids)
    assert refused.returncode == 2
    assert "different questions" in refused.stderr
    shared = json.loads(command("compare", *ids, "--common", "--json").stdout)
    assert shared["questions"] == 5


@pytest.mark.slow
def test_the_published_figures_come_out_of_the_recorded_predictions(command: Cli, data: Path) -> None:
    """MIRAGE's two GPT-3.5 rows: CoT with empty replies as wrong, and MedRAG (Table 5, docs/reference/scorers.md)."""
    mirage = data / "mirage"
    predictions = [str(mirage / "predictions" / f"gpt-35-turbo-16k_{name}.jsonl.gz") for name in ("cot", "rag_32")]
    benchmark = f"mirage:{mirage / 'benchmark.json'}"
    done = command("import", "--format", "mirage-predictions", *predictions, "--benchmark", benchmark, "--json")
    assert done.returncode == 0, done.stderr
    tables = {table["scorer"]: table for table in json.loads(done.stdout)["comparison"]["tables"]}
    order = [f"mirage/{name}" for name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")]

    def row(scorer: str, index: int) -> list[float]:
        line = tables[scorer]["lines"][index]
        return [round(100 * line["datasets"][name]["value"], 2) for name in order] + [
            round(100 * line["overall"]["value"], 2)
        ]

    assert row("mirage", 0) == [72.91, 64.89, 55.13, 36.00, 74.11, 60.61]
    assert row("mirage", 1) == [75.48, 66.61, 58.04, 67.40, 90.29, 71.57]
    assert row("strict", 1)[2] == 53.45
    error = tables["mirage"]["lines"][1]["datasets"]["mirage/medmcqa"]["error"]
    assert round(100 * error, 2) == 0.76
    pair = tables["mirage"]["pairs"][0]["tests"]
    assert pair["difference"] > 0.09
    assert pair["p_mcnemar"] < 1e-10


def test_the_authors_folder_of_per_question_files_is_read(command: Cli, tmp_path: Path) -> None:
    questions = {
        "mmlu": {
            f"anatomy-00{i}": {"question": f"Q{i}?", "options": {"A": "x", "B": "y"}, "answer": "AB"[i % 2]}
            for i in range(6)
        }
    }
    (tmp_path / "benchmark.json").write_text(json.dumps(questions))
    folder = tmp_path / "prediction" / "mmlu" / "cot" / "OpenAI" / "gpt-x"
    folder.mkdir(parents=True)
    filtered = "The response was filtered due to the prompt triggering the content management policy."
    recorded = [['{"answer_choice": "A"}'], ['{"answer_choice": "C or D"}'], [], ["Connection error."], [filtered]]
    for i, replies in enumerate(recorded):
        (folder / f"test_anatomy-00{i}.json").write_text(json.dumps(replies))
    arguments = [
        "import",
        "--format",
        "mirage-predictions",
        str(tmp_path),
        "--benchmark",
        f"mirage:{tmp_path / 'benchmark.json'}",
    ]
    done = succeeded(command(*arguments, "--json"))
    found = json.loads(done.stdout)
    assert [(one["matching"]["rows"], one["missing"]) for one in found["runs"]] == [(5, 1)]
    row = found["comparison"]["rows"][0]
    assert row["statuses"] == {"completed": 2, "failed": 2, "blocked": 1, "not_run": 1}
    (mirage,) = (table for table in found["comparison"]["tables"] if table["scorer"] == "mirage")
    assert mirage["lines"][0]["outcomes"] == {"answered": 2, "failed": 2, "blocked": 1, "not_run": 1}
    assert row["agent"] == 'imported[agent="OpenAI/gpt-x cot"]'
    again = json.loads(command(*arguments, "--json").stdout)
    assert again["comparison"]["tables"] == found["comparison"]["tables"]
    assert len(json.loads(command("runs", "ls", "--json").stdout)["runs"]) == 1
    (folder / "test_anatomy-000.json").write_text("{")
    broken = succeeded(command(*arguments))
    assert "Not read: test_anatomy-000.json, the file: a list of replies was expected." in broken.stderr


@pytest.mark.slow
@pytest.mark.weekly
def test_the_real_questions_through_the_wire(data: Path) -> None:
    """The smaller form of perf/mirage_wire.py, which also kills the run and goes on."""
    command = [sys.executable, str(ROOT / "perf" / "mirage_wire.py"), "--data", str(data), "--questions", "80"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, timeout=900)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for agent in ("direct_cot", "vanilla_rag"):
        assert set(report[agent]["failed"]) <= {"no_choices: the provider's response has no choices"}


def test_an_answer_is_shown_next_to_that_of_a_run_on_the_same_questions(command: Cli, tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text('{"id": "1", "question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "A"}\n')
    run = ("run", "--model", "baseline:extractive", "--display", "none", "--agent", "direct")
    assert command(*run, "--agent", "direct_cot", "--limit", "1").returncode == 0
    assert command(*run, "--benchmark", f"jsonl:{own}").returncode == 0
    question = json.loads(command("trace", "direct_cot", "--format", "json").stdout)["attempts"][0]["question_id"]
    shown = succeeded(command("show", "direct_cot", question, "--against", "direct", "--json"))
    assert [one["run"]["agent"] for one in json.loads(shown.stdout)["attempts"]] == ["direct_cot", "direct"]
