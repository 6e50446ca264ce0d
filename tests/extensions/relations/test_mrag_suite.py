"""`mrag` as a whole: what is registered runs under one command, what is not is named; Chinese sets load and score."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.evals.benchmarks import load, register
from tests.conftest import Cli
from tests.extensions.relations.test_link_graphs import drkg
from tests.servers.scripted_http import Scripted, scripted

TCM = [
    {
        "id": 1,
        "question": "示例：甲草的主要功效是什么？",
        "options": ["清热", "补气", "安神"],
        "answer": "B",
        "language": "zh",
    },
    {"id": 2, "question": "示例：乙方用于何证？", "options": ["虚证", "实证"], "answer": "A", "language": "zh"},
]
CLFQA = [{"id": 1, "question": "示例：感冒时怎样休息？", "answer": "多休息，多喝水，发热时看医生。", "type": "long"}]
CMEIE = {
    "text": "示例病会引起头痛。",
    "spo_list": [{"subject": "示例病", "predicate": "临床表现", "object": {"@value": "头痛"}}],
}
DDI = {
    "id": "d1",
    "split": "Train/x",
    "sentences": [
        {
            "text": "Alphamycin raises the level of betaprofen.",
            "entities": [{"id": "1", "text": "Alphamycin"}, {"id": "2", "text": "betaprofen"}],
            "pairs": [{"e1": "1", "e2": "2", "ddi": "true", "type": "mechanism"}],
        }
    ],
}
MIRAGE = {
    name: {"1": {"question": f"Made up for {name}?", "options": {"A": "yes", "B": "no"}, "answer": "A"}}
    for name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")
}


def json_lines(path: Path, *records: dict) -> Path:
    path.write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records), encoding="utf-8")
    return path


@pytest.fixture
def registered(tmp_path: Path, home: Path) -> Path:
    """All but ChemProt, ADInt and MultiMedQA; five of them as MIRAGE, DDI as itself."""
    (tmp_path / "benchmark.json").write_text(json.dumps(MIRAGE))
    register("mirage", tmp_path / "benchmark.json", home)
    register("ddi", json_lines(tmp_path / "ddi2013.jsonl", DDI), home)
    register("mrag/cmeie", json_lines(tmp_path / "CMeIE_dev.jsonl", CMEIE), home)
    register("mrag/tcm", json_lines(tmp_path / "tcm.jsonl", *TCM), home)
    register("mrag/clfqa", json_lines(tmp_path / "clfqa.jsonl", *CLFQA), home)
    register("mrag/drkg", drkg(tmp_path / "drkg"), home)
    return home


def reply(prompt: str, _: int) -> str:
    if "Alphamycin" in prompt and "mechanism" in prompt:
        return '[["betaprofen", "mechanism", "alphamycin"]]'
    if "示例病" in prompt:
        return "［［“示例病”，“临床表现”，“头痛”］］"
    if "甲草" in prompt:
        return '{"answer_choice": "Ｂ"}'
    if "感冒" in prompt:
        return "多休息，多喝水，发热时看医生。"
    found = re.search(r"^([A-Z0-9]+)\. treats$", prompt, re.MULTILINE)
    return json.dumps({"answer_choice": found[1] if found else "A"})


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(reply) as made:
        yield made


@pytest.mark.slow
def test_the_suite_runs_over_what_is_registered_and_names_the_rest(
    registered: Path, command: Cli, server: Scripted, tmp_path: Path
) -> None:
    done = command(
        *("run", "--benchmark", "mrag", "--agent", "direct", "--model", "openai:m", "--base-url", server.url),
        *("--display", "none", "--full"),
        OPENAI_API_KEY="none",
    )
    assert done.returncode == 0, done.stderr
    for name in ("chemprot", "adint", "multimedqa"):
        assert f"mrag/{name} is not here" in done.stderr
        assert f"`ragrounds data add mrag/{name} PATH`" in done.stderr
    assert "mrag/drkg is not here" not in done.stderr
    # One headline for each kind of question, each over its own datasets.
    shown = done.stdout
    assert re.search(r"^robust: ", shown, re.MULTILINE)
    choices = shown.partition("\nrobust, ")[2].partition("\ntriplets, ")[0]
    for name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq", "tcm", "drkg", "average"):
        assert name in choices
    assert "at best" not in choices  # nothing is open
    assert re.search(r"^triplets, percent  strict micro-F1", shown, re.MULTILINE)
    extraction = next(line for line in shown.splitlines() if line.startswith("agent") and "cmeie" in line)
    assert "ddi" in extraction
    assert re.search(r"^rouge-l: ", shown, re.MULTILINE)
    (run,) = json.loads(command("runs", "ls", "--json").stdout)["runs"]
    comparison = json.loads(command("compare", run["run"]["id"], "--json").stdout)
    tables = {one["scorer"]: one["lines"][0]["datasets"] for one in comparison["tables"]}
    assert {name: one["value"] for name, one in tables["triplets"].items()} == {"mrag/ddi": 1.0, "mrag/cmeie": 1.0}
    assert tables["robust"]["mrag/tcm"]["value"] == 1.0  # a full-width letter, and A
    assert tables["rouge-l"]["mrag/clfqa"]["value"] == pytest.approx(1.0)
    assert 0 < tables["robust"]["mrag/drkg"]["value"] < 1
    assert command("report", run["run"]["id"], "--out", "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "cmeie" in page


def test_without_any_dataset_the_whole_list_is_said(home: Path, command: Cli) -> None:
    done = command("run", "--benchmark", "mrag", "--agent", "direct", "--model", "baseline:extractive")
    assert done.returncode == 2
    assert done.stderr.count("is not here") == 13
    assert "(or as mirage)" in done.stderr


def test_a_dataset_is_read_from_its_originals_copy_too(registered: Path) -> None:
    assert len(load("mrag/mmlu", registered)) == 1
    assert load("mrag/ddi", registered).questions[0].benchmark == "mrag/ddi"
    whole = load("mrag", registered)
    assert whole.counts == {
        **{f"mrag/{name}": 1 for name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")},
        "mrag/tcm": 2,
        "mrag/ddi": 1,
        "mrag/cmeie": 1,
        "mrag/drkg": 5,
        "mrag/clfqa": 1,
    }
