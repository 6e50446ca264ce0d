"""Runs that search what changes by itself, as a user starts them: no corpus, a date, refusals that cost one search."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.servers.process import Running, running
from tests.servers.web_searches import KEY


@pytest.fixture(scope="module")
def providers() -> Iterator[Running]:
    with running("web_searches", "--every", "7", "--retry-after", "0.2") as server:
        yield server


def tavily(server: Running, more: str = "") -> str:
    return f'web[provider=tavily[url="http://127.0.0.1:{server.port}/tavily",rate=500{more}]]'


def notes_of(command: Cli) -> list[str]:
    shown = json.loads(command("compare", "--json").stdout)
    return list(shown["notes"])


def test_a_run_needs_no_corpus_and_is_dated(command: Cli, providers: Running) -> None:
    retriever = f'pubmed[url="http://127.0.0.1:{providers.port}/eutils",rate=500]'
    done = command("run", "--agent", "vanilla_rag", "--retriever", retriever, "--limit", "3", "--display", "none")
    assert done.returncode == 0, done.stderr
    assert "searched pubmed@live, which changes by itself, on 20" in " ".join(done.stdout.split())
    assert "(UTC)" in done.stdout


def test_what_is_needed_is_said_where_a_corpus_is(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "Q?", "options": {"A": "x", "B": "y"}, "answer": "A"}\n')
    done = command("run", "--benchmark", "jsonl:q.jsonl", "--agent", "vanilla_rag", "--model", "baseline:extractive")
    assert done.returncode == 2
    assert "no corpus was given" in done.stderr


def test_a_replay_needs_neither_key_nor_provider(command: Cli, home: Path) -> None:
    with running("web_searches") as server:
        asked = ("run", "--agent", "vanilla_rag", "--retriever", tavily(server), "--limit", "4", "--display", "none")
        first = command(*asked, TAVILY_API_KEY=KEY)
        assert first.returncode == 0, first.stderr
    os.environ.pop("TAVILY_API_KEY", None)
    again = command(*asked, "--new", "--journal", "replay")
    assert again.returncode == 0, again.stderr
    assert "0 model calls made, 4 answered from the journal" in again.stderr


def test_refusals_cost_a_search_and_requests_are_paid(command: Cli, tmp_path: Path, providers: Running) -> None:
    """Two of six queries are longer than the provider takes: their attempts end, with nothing found."""
    rows = [
        {"id": str(n), "question": ("Which drug? " * (60 if n > 3 else 2)) + str(n), "options": {"A": "x", "B": "y"},
         "answer": "A"}
        for n in range(6)
    ]  # fmt: skip
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("run", "--benchmark", "jsonl:q.jsonl", "--agent", "vanilla_rag", "--model", "baseline:extractive")
    longer = tavily(providers, ",length=100000")
    done = command(*asked, "--retriever", longer, "--display", "none", TAVILY_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert "Of its 6 attempts, 2 had a query that was refused." in done.stdout
    told = json.loads(command("ledger", "--by", "role", "--json").stdout)
    [searching] = [line for line in told["lines"] if line["role"] == "searching"]
    assert (searching["searches"], searching["cost_paid"]) == (6, pytest.approx(4 * 0.008))
    cut = command(*asked, "--retriever", tavily(providers), "--display", "none", TAVILY_API_KEY=KEY)
    assert "Of its 6 attempts, 2 had a query cut to the provider's length." in cut.stdout
    assert KEY not in done.stdout + done.stderr + cut.stdout + cut.stderr


def test_a_plan_that_is_used_up_ends_the_run_in_one_line(command: Cli) -> None:
    with running("web_searches", "--used-up", "2") as server:
        done = command(
            "run", "--agent", "vanilla_rag", "--retriever", tavily(server), "--concurrency", "1", "--limit", "4",
            "--display", "none", TAVILY_API_KEY=KEY,
        )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "tavily answered 432: This request exceeds your plan's set usage limit. Its plan is used up" in last
