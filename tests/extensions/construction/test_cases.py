"""`ragrounds build case-questions` end to end: a real server, scripted; counts against those worked out by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tests.conftest import Cli
from tests.extensions.construction.annotating import counted, read_lines
from tests.extensions.construction.casing import CALLS, COUNTS, MADE, PLAN, drawn, script_of
from tests.extensions.construction.conftest import Builder
from tests.servers.process import Running

LIMIT, SEED = len(PLAN), 5


def options(server: Running, out: Path, limit: int = LIMIT) -> list[str]:
    models = ["--model", "openai:writer", "--rewriter", "openai:rewriter", "--checker", "openai:checker"]
    return [*models, "--base-url", server.url, "--out", str(out), "--limit", str(limit), "--seed", str(SEED)]


def test_from_reports_to_a_benchmark_that_runs(command: Cli, builder: Builder, tmp_path: Path) -> None:
    reports = drawn("sample", LIMIT, SEED)
    fates = {report.id: fate for report, fate in zip(reports, PLAN, strict=True)}
    server, out = builder(script_of(reports, PLAN)), tmp_path / "rare"
    done = command("build", "case-questions", "sample", *options(server, out), "--json", "--display", "json")
    stats = server.stats()
    assert done.returncode == 0, done.stderr
    assert stats["by_model"] == CALLS
    again = command("build", "case-questions", "sample", *options(server, out), "--json", "--display", "none")
    assert server.stats() == stats, "nothing is asked twice"
    assert again.stdout == done.stdout
    card = json.loads(done.stdout)
    assert card == {"version": 2, **json.loads((out / "card.json").read_text())}
    lines = counted(card)
    total = 293
    assert lines.pop("intake") == (total, total, {})
    assert lines.pop("sample") == (total, LIMIT, {"not sampled": total - LIMIT})
    assert lines.pop("run") == (LIMIT, LIMIT, {})
    assert lines == COUNTS
    assert card["made"]["seed"] == SEED
    assert card["made"]["models"].keys() == {"model", "rewriting", "checking"}
    assert len(card["made"]["prompts"]) == 6
    assert card["made"]["bill"]["calls"] == sum(CALLS.values())
    assert card["made"]["bill"]["cost_uncached"] is None, "these models have no known price"

    rows = read_lines(out / "ogcarebench.jsonl")
    assert len(rows) == card["benchmark"]["size"] == MADE
    kept = [id for id, fate in fates.items() if fate == "kept" or fate.startswith("once")]
    assert [row["pmc_id"] for row in rows] == kept
    assert all("A cat lives there." in row["question"] for row in rows)
    assert all(row["answer"].startswith("Thereupon whatever helps") for row in rows)
    rejected = {row["id"]: (row["stage"], row["reason"]) for row in read_lines(out / "rejected.jsonl")}
    assert rejected.keys() == fates.keys() - set(kept)
    bad = {id: fate.split()[1] for id, fate in fates.items() if fate.startswith("bad")}
    assert {id: rejected[id] for id in bad} == {id: (stage, "malformed output") for id, stage in bad.items()}
    details = {row["stage"]: row["detail"] for row in read_lines(out / "rejected.jsonl") if row["id"] in bad}
    assert "poem" in details["significance"]
    assert details["question"] == "the decision is event 99; expected 2 to " + details["question"].split()[-1]

    # What is rejected is seen in its trace.
    shown = command("show", card["made"]["run"], next(id for id, fate in fates.items() if fate == "beside"))
    assert shown.returncode == 0, shown.stderr
    for word in ("significance", "timeline", "verbatim", "follows", "the answer does not follow from the significance"):
        assert word in shown.stdout

    # The benchmark is taken in, replayed by agents and searched.
    added = command("data", "add", "ogcarebench/rare", str(out))
    assert added.returncode == 0, added.stderr
    assert f"{MADE} questions" in added.stderr
    ran = command(
        *["run", "--benchmark", "ogcarebench/rare", "--corpus", f"beir:{out}", "--agent", "oracle"],
        *["--agent", "vanilla_rag[top_k=1]", "--model", "baseline:extractive", "--json", "--display", "none"],
    )
    assert ran.returncode == 0, ran.stderr
    assert [row["statuses"] for row in json.loads(ran.stdout)["rows"]] == [{"completed": MADE}] * 2
    searched = command("retrieve", "--benchmark", f"beir:{out}", "--retriever", "bm25", "--json")
    assert searched.returncode == 0, searched.stderr
    found = json.loads(searched.stdout)
    assert found["queries"] == MADE
    assert found["unknown_documents"] == 0


def test_experts_keep_what_they_rate_four_or_five(command: Cli, builder: Builder, tmp_path: Path) -> None:
    ratings = [("5", "4"), ("4", ""), ("3", "5"), ("5", "2"), ("", ""), ("4", "4")]
    pairs = len(ratings)
    server, out = builder(script_of(drawn("sample", pairs, SEED), ["kept"] * pairs)), tmp_path / "rare"
    ordered = ["build", "case-questions", "sample", *options(server, out, pairs), "--experts", "2"]
    ordered += ["--display", "none"]
    assert command(*ordered).returncode == 0
    asked = server.stats()["asked"]
    with (out / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "question", "answer", "rating_1", "rating_2", "comment", "digest"]
    for row, (first, second) in zip(rows, ratings, strict=True):
        row["rating_1"], row["rating_2"] = first, second
    filled = tmp_path / "filled.csv"
    with filled.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(reversed(rows))
    mine = (out / "sheet.csv").read_text(encoding="utf-8-sig").replace(",,\n", ",5,mine\n")
    (out / "sheet.csv").write_text(mine, encoding="utf-8")
    again = command(*ordered)
    assert again.returncode == 0, again.stderr
    assert (out / "sheet.csv").read_text(encoding="utf-8") == mine, "a sheet with ratings is not written over"
    assert (out / "sheet-2.csv").is_file()
    rated = command(*ordered, "--ratings", str(filled), "--json")
    assert rated.returncode == 0, rated.stderr
    assert server.stats()["asked"] == asked
    card = json.loads(rated.stdout)
    assert counted(card)["experts"] == (6, 3, {"rated below 4": 2, "not rated": 1})
    assert card["benchmark"]["size"] == 3
    assert len(read_lines(out / "ogcarebench.jsonl")) == 3
    assert {
        (row["reason"], row["detail"]) for row in read_lines(out / "rejected.jsonl") if row["stage"] == "experts"
    } == {
        ("rated below 4", "3, 5"),
        ("rated below 4", "5, 2"),
        ("not rated", "its cells are empty"),
    }


def test_a_folder_with_other_files_is_left_alone(command: Cli, tmp_path: Path) -> None:
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    refused = command("build", "case-questions", "sample", "--out", str(other), "--model", "openai:x")
    assert refused.returncode == 2
    assert "holds other files" in refused.stderr
