"""Whole reports in the context, through the command line and a model server: shown once, or skipped and said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, succeeded
from tests.long_reports import MadeReport, write_reports
from tests.servers.process import Running

PARENT = "retriever=parent[of=maxp[of=bm25]]"


@pytest.fixture
def reports(tmp_path: Path, command: Cli) -> list[MadeReport]:
    """Eight reports of some 1,300 tokens: the index `cases` and the benchmark folder `rare`."""
    made = write_reports(tmp_path / "rare", 8, words=(300, 400))
    built = command("index", "build", "cases", "--from", "beir:rare", "--chunker", "tokens[size=512,stride=128]")
    assert built.returncode == 0, built.stderr
    return made


def ask(command: Cli, server: Running, model: str, *agents: str) -> tuple[int, str, list[dict[str, str]]]:
    named = [word for agent in agents for word in ("--agent", agent)]
    done = command(
        *("run", "--benchmark", "ogcarebench:rare", "--corpus", "cases", "--model", model, "--base-url", server.url),
        *("--display", "none", "--json", *named),
        OPENAI_API_KEY="k",
    )
    return done.returncode, done.stderr, json.loads(done.stdout)["rows"] if done.stdout else []


def prompt(command: Cli, run: str, question: str) -> str:
    shown = succeeded(command("show", run, question, "--json", "--full"))
    return shown.stdout


def test_agents_show_whole_reports_and_the_oracle_the_one(
    command: Cli, server: Running, reports: list[MadeReport]
) -> None:
    agents = ("vanilla_rag[top_k=3]", f"vanilla_rag[top_k=3,{PARENT}]", "oracle", "oracle[retriever=bm25]")
    code, told, rows = ask(command, server, "openai:any", *agents)
    assert code == 0, told
    first = reports[0]
    texts = {row["agent"]: prompt(command, row["run"], "ogcarebench/1") for row in rows}
    chunk, parent, oracle, pieces = (texts[row["agent"]] for row in rows)
    end = json.dumps(first.text[-80:])[1:-1]
    assert json.dumps(first.text)[1:-1] not in chunk
    assert json.dumps(first.text)[1:-1] in parent
    assert f'"chunk": "{first.id}_' in parent
    assert '"chunk": ""' in chunk
    assert oracle.count(end) == 1
    assert pieces.count(end) >= 1
    assert len(pieces) > 1.5 * len(oracle)


def test_retrieve_has_the_papers_measures_of_the_source_report(command: Cli, reports: list[MadeReport]) -> None:
    spec = "maxp[of=bm25]"
    done = command("retrieve", "--benchmark", "ogcarebench:rare", "--corpus", "cases", "--retriever", spec, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    measures = ["nDCG@10", "R@1", "R@3", "R@5", "R@10", "R@100", "R@1000", "MRR@5"]
    assert [name for name in found if "@" in name] == measures
    assert found["R@100"] == found["R@1000"] == 1.0
    assert 0.0 < found["R@1"] <= found["R@3"] <= found["R@5"] <= found["R@10"] == 1.0
