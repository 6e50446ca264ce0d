"""Data never runs code: no name in a store, a benchmark or a card is imported, whatever command reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.base.records import Asked
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.conftest import Cli, succeeded

PLANTED = """
from pathlib import Path
Path({ran!r}).write_text("ran")
raise SystemExit("planted code was run")
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is written when the module ``planted`` is imported, which the current folder and the path have."""
    written = tmp_path / "ran"
    (tmp_path / "planted.py").write_text(PLANTED.format(ran=str(written)))
    (tmp_path / "agent.toml").write_text('graph = "planted.py:build"\nsummary = "s"\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    yield written
    sys.modules.pop("planted", None)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A portable file of runs whose agents, retrievers, models and scorers name the module ``planted``."""
    names = ("planted:build", "./planted.py:build", "vanilla_rag[retriever=planted:OBJ]", "agent.toml")
    with Store(tmp_path / "theirs") as store:
        for place, agent in enumerate(names):
            identity = {
                "agent": agent,
                "graph": "planted:build",
                "retriever": 'langchain[from="planted:OBJ"]',
                "models": {"model": "import:planted:OBJ"},
                "corpus": "planted:OBJ",
            }
            add_run(
                store, agent, questions(benchmark="planted:FAMILY"), [1, 0, 1, 0], identity=identity, id=f"run-{place}",
                scorer="planted:SCORER", texts=dict.fromkeys(range(4), "planted:build"),
                asked_by=Asked(str(tmp_path), ("--benchmark", "planted:FAMILY:x", "--agent", agent)),
            )  # fmt: skip
    return tmp_path / "theirs" / "store.sqlite"


def test_no_command_imports_what_a_store_names(command: Cli, ran: Path, other: Path, tmp_path: Path) -> None:
    assert command("import", "--format", "store", str(other)).returncode == 0
    names = ("run-0", "run-1")
    for line in (
        ("runs", "ls"),
        ("runs", "show", "run-0"),
        ("runs", "show", "planted:build"),
        ("compare", *names),
        ("compare", *names, "--json"),
        ("ledger", *names),
        ("show", "run-0", "planted:FAMILY/0"),
        ("trace", "run-0", "--json"),
        ("report", *names, "--analysis", "grid", "--analysis", "flips", "--out", str(tmp_path / "r.html")),
        ("analyse", "flips", "run-0"),
        ("analyse", "epochs", "run-0"),
        ("analyse", "success", "run-2"),
        ("export", "jsonl", "run-0", "--out", str(tmp_path / "r.jsonl")),
        ("score", "run-0"),
        ("arena", "ls"),
        ("data", "show", "planted:FAMILY"),
        ("data", "rm", "planted:FAMILY", "--yes"),
    ):
        done = command(*line)
        assert done.returncode in (0, 2), (line, done.stderr)
        assert not ran.exists(), (line, done.stderr)
    text = command("compare", "run-1", "run-2").stdout
    assert "planted:SCORER" in text
    assert "unit not known" in text


def test_resuming_runs_no_code_that_only_a_store_names(command: Cli, ran: Path, other: Path) -> None:
    assert command("import", "--format", "store", str(other)).returncode == 0
    for run in ("run-0", "run-1", "run-2", "run-3"):
        done = command("runs", "resume", run)
        assert done.returncode == 2, run
        assert "which is code, and a store never starts code" in done.stderr, run
        assert "add its --until, --max-questions, budgets and other agents, which are not stored: cd" in done.stderr, (
            run
        )
        assert "ragrounds run --benchmark planted:FAMILY:x --agent" in done.stderr, run
        assert not ran.exists(), run


def test_a_benchmark_that_names_code_is_read_as_text(command: Cli, ran: Path, tmp_path: Path) -> None:
    line = {"id": "a", "question": "Q?", "options": {"A": "x", "B": "y"}, "answer": "A", "type": "choice"}
    (tmp_path / "own.jsonl").write_text(json.dumps({**line, "benchmark": "planted:FAMILY", "group": "planted:OBJ"}))
    done = command(
        *("run", "--benchmark", "jsonl:own.jsonl", "--agent", "direct", "--model", "baseline:extractive"),
        *("--display", "none"),
    )
    assert done.returncode == 0, done.stderr
    assert command("data", "audit", "jsonl:own.jsonl").returncode == 0
    assert not ran.exists()


def test_an_agents_file_that_names_code_says_so(command: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine.py").write_text("from ragrounds.graphs.direct import build\n")
    (tmp_path / "mine.toml").write_text('graph = "mine.py:build"\nsummary = "s"\n')
    succeeded(command("list", "agents", "mine.toml"))
    assert "mine.toml contains code, which is run with it: mine.py:build" in caplog.text
    (tmp_path / "far.toml").write_text('graph = "vanilla_rag"\nsummary = "s"\nretriever = "rrf[a=bm25,b=mine:OBJ]"\n')
    assert command("list", "agents", "far.toml").returncode == 0
    assert "far.toml contains code, which is run with it: mine:OBJ" in caplog.text
    (tmp_path / "plain.toml").write_text('graph = "vanilla_rag"\nsummary = "s"\nretriever = "dense[model=openai:x]"\n')
    assert command("list", "agents", "plain.toml").returncode == 0
    assert "plain.toml" not in caplog.text


def test_a_card_in_a_folder_of_data_names_code(ran: Path, tmp_path: Path) -> None:
    from ragrounds.evals.benchmarks.cards import CARD_FILE, load_built_card
    from ragrounds.evals.scorers import headline_of

    card = {"name": "beir/own", "title": "t", "task": "choice", "source": "s", "license": "l"}
    named = {**card, "headline": ["planted:SCORER"], "columns": ["./planted.py:SCORER"]}
    (tmp_path / CARD_FILE).write_text(json.dumps({"benchmark": named}))
    found = load_built_card(tmp_path)
    assert found is not None
    asked = questions(benchmark="beir/own")
    assert headline_of(asked, ["planted:SCORER", "./planted.py:SCORER"], found)[0].scorer == "planted:SCORER"
    assert headline_of(asked, card=found)
    assert not ran.exists()
