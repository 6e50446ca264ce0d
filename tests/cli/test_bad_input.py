"""Bad input ends in one clear line on stderr, exit code 2, nothing on stdout, no traceback."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from ragrounds.evals.store import database, sqlite
from tests.conftest import Cli


def check(done: object, *said: str) -> None:
    stderr = done.stderr.strip().splitlines()  # type: ignore[attr-defined]
    assert done.returncode == 2, stderr  # type: ignore[attr-defined]
    assert done.stdout == ""  # type: ignore[attr-defined]
    assert not any("Traceback" in line for line in stderr)
    told = [line for line in stderr if line.startswith("ragrounds: ")]
    assert len(told) == 1, stderr
    for part in said:
        assert part in told[0]


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


GOOD = {"mmlu": {"anatomy-000": {"question": "Which?", "options": {"A": "this", "B": "that"}, "answer": "A"}}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--benchmark", "mirag:x.json"], ["Unknown benchmark 'mirag'", "'mirage'"]),
        (["--benchmark", "mirage:missing.json"], ["missing.json"]),
        (["--benchmark", "mirage"], ["ragrounds data add"]),
        (["--agent", "vanila_rag"], ["Unknown agent", "'vanilla_rag'"]),
        (["--agent", "vanilla_rag[top=3]"], ["no parameter 'top'", "'top_k'"]),
        (["--agent", "vanilla_rag[top_k=-1]"], ["top_k", "at least 0"]),
        (["--agent", "direct", "--agent", "direct"], ["given twice"]),
        (["--agent", "direct["], ["Cannot read the spec"]),
        (["--model", "gpt-4o"], ["has no provider", "openai:gpt-4o-mini"]),
        (["--model", "openai:gpt-4o-mini"], ["OPENAI_API_KEY"]),
        (["--model", "openai:x[temprature=0]"], ["temprature", "'temperature'"]),
        (["--model", "nobody:x"], ["nobody"]),
        (["--display", "fancy"], ["--display 'fancy'"]),
        (["--journal", "replai"], ["'replay'"]),
        (["--journal", "replay"], ["Replay: this call is not in the journal"]),
        (["--corpus", "beir:nowhere"], ["nowhere"]),
        (["--agent", "vanilla_rag[retriever=bm52]"], ["bm52"]),
    ],
)
def test_one_clear_line(command: Cli, arguments: list[str], said: list[str]) -> None:
    check(
        command("run", "--display", "none", *arguments) if "--display" not in arguments else command("run", *arguments),
        *said,
    )


def test_a_judging_without_a_kind_names_the_kinds(command: Cli) -> None:
    check(command("judge", "direct"), "--kind is not set. Known: answer-relevancy, citations,", "equivalence")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(GOOD)[:-20], ["b.json"]),
        ("", ["b.json"]),
        (
            {"mmlu": {"anatomy-000": {"question": "Which?", "options": {"A": "this", "B": "that"}, "answer": "C"}}},
            ["'C'"],
        ),
        ({"mmlu": {"anatomy-000": {"question": "Which?", "options": {"A": "this", "B": "that"}}}}, ["answer"]),
        ('{"mmlu": {"a-1": {"question": "x", "options": {"A": "1", "B": "2"}, "answer": "A"}, "a-1": {}}}', ["a-1"]),
    ],
)
def test_a_broken_benchmark_names_file_and_record(
    command: Cli, tmp_path: Path, content: object, said: list[str]
) -> None:
    path = write(tmp_path / "b.json", content)
    check(command("run", "--benchmark", f"mirage:{path}", "--model", "baseline:extractive", "--agent", "direct"), *said)


def test_a_corpus_that_no_agent_searches_is_named(command: Cli) -> None:
    done = command("run", "--agent", "direct", "--corpus", "sample", "--limit", "1", "--display", "none")
    assert "--corpus is ignored: no agent searches it." in done.stderr


def test_an_agent_that_searches_needs_a_corpus(command: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", GOOD)
    done = command("run", "--benchmark", f"mirage:{path}", "--model", "baseline:extractive", "--agent", "vanilla_rag")
    check(done, "--corpus")


def test_a_real_benchmark_needs_a_model(command: Cli, tmp_path: Path) -> None:
    check(command("run", "--benchmark", f"mirage:{write(tmp_path / 'b.json', GOOD)}"), "--model")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home(command: Cli, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    check(command("run", "--display", "none", RAGROUNDS_HOME=str(locked)), str(locked))


def test_a_home_that_is_a_file(command: Cli, tmp_path: Path) -> None:
    check(command("run", "--display", "none", RAGROUNDS_HOME=str(write(tmp_path / "file", "x"))), "RAGROUNDS_HOME")


def test_what_is_kept_is_for_its_owner_alone(command: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        database, "open_file", sqlite.open_file
    )  # the fixtures' copy of an empty store has other rights
    mask = os.umask(0o022)
    try:
        assert command("run", "--limit", "2", "--agent", "direct", "--display", "none").returncode == 0
    finally:
        os.umask(mask)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    kept = [path for path in home.glob("store.sqlite*") if stat.S_IMODE(path.stat().st_mode) != 0o600]
    assert (home / "store.sqlite").is_file()
    assert not kept, kept


def test_a_store_that_is_not_one(command: Cli, home: Path) -> None:
    home.mkdir()
    write(home / "store.sqlite", "this is not a database, but it is long enough to be read as one" * 20)
    check(command("run", "--display", "none"), "store.sqlite")


def test_a_misspelt_setting(command: Cli, tmp_path: Path) -> None:
    check(command("run", "--display", "none", RAGROUNDS_HOEM="/x"), "RAGROUNDS_HOEM", "RAGROUNDS_HOME")
    file = write(tmp_path / "settings.toml", "concurency = 3\n")
    check(command("run", "--display", "none", RAGROUNDS_CONFIG=str(file)), "concurency", "concurrency")


@pytest.mark.parametrize("words", ["show nothing q", "compare nothing", "score nothing", "runs show nothing",
                                   "runs resume nothing"])  # fmt: skip
def test_an_unknown_run(command: Cli, words: str) -> None:
    check(command(*words.split()), "There is no run 'nothing'")


def test_a_file_after_the_flag_for_a_table(command: Cli) -> None:
    check(command("compare", "--csv", "table.csv"), "There is no run 'table.csv'", "`> table.csv`")
