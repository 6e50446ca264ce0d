"""What a run makes of faults around it: servers, disks, clocks, flipped bits. Real parts throughout."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from ragrounds.base.records import Attempt
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, questions
from tests.servers.process import Running, openai_server

MODEL = "openai:m[alias=the-server,tries=2,patience=20]"


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("ragrounds: ")]


def kept(home: Path) -> list[Attempt]:
    with Store(home) as store:
        return [attempt for run in store.runs() for attempt in store.attempts(run)]


# Servers


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("context-always", "failed", "context_too_long: 9,000 tokens, the model's limit is 4,096: "),
        ("filter-always", "blocked", "content filter"),
        ("filter-finish-always", "blocked", "content filter"),
        ("400-always", "failed", "bad_request: 400: temperature must be 1"),
    ],
)
def test_what_a_server_says_is_told_apart(
    command: Cli, home: Path, server: Running, fault: str, status: str, reason: str
) -> None:
    options = ["--agent", "direct", "--limit", "2", "--model", f"openai:fault-{fault}", "--base-url", server.url]
    done = command("run", *options, "--display", "none", "--json")
    assert (done.returncode, lines(done)) == (3 if status == "failed" else 0, [])
    found = kept(home)
    assert [attempt.status for attempt in found] == [status] * 2
    assert all(reason in attempt.reason for attempt in found)
    assert all(("AGENT[top_k=…]" in attempt.reason) is ("context" in reason) for attempt in found)
    assert json.loads(done.stdout)["rows"][0]["statuses"][status] == 2


@pytest.mark.parametrize(("fault", "said"), [("401", "refused the key"), ("404", "does not know the model")])
def test_a_wrong_key_or_model_stops_the_run_at_once(
    command: Cli, home: Path, server: Running, fault: str, said: str
) -> None:
    options = ["--agent", "direct", "--limit", "40", "--concurrency", "3", "--model", f"openai:fault-{fault}-always"]
    before = server.stats()["asked"]
    done = command("run", *options, "--base-url", server.url, "--display", "none", OPENAI_API_KEY="sk-wrong-0123456789")
    assert done.returncode == 2
    assert [said in line for line in lines(done)] == [True]
    if fault == "404":
        assert " It lists " in done.stderr
        assert f"`ragrounds doctor --model openai:NAME --base-url {server.url}` asks it." in done.stderr
    assert server.stats()["asked"] - before <= 3  # what was in flight, and nothing after it
    assert kept(home) == []


@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_a_closed_port_is_named_in_one_line(command: Cli, home: Path, inside_a_loop: bool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    options = ["run", "--agent", "direct", "--model", MODEL, "--base-url", address, "--display", "none"]

    async def carry_out() -> subprocess.CompletedProcess[str]:
        return command(*options)

    named = command(*options[:-4], "--display", "none", OPENAI_BASE_URL=address)
    assert "and is OPENAI_BASE_URL right?" in named.stderr
    done = asyncio.run(carry_out()) if inside_a_loop else command(*options)
    assert done.returncode == 2
    [line] = lines(done)
    assert line.startswith(f"ragrounds: cannot connect to {address}: ")
    assert "no running event loop" not in done.stderr


@pytest.mark.slow
def test_a_server_that_answers_for_a_while_and_then_hangs(command: Cli, home: Path) -> None:
    options = ["--agent", "direct", "--limit", "12", "--concurrency", "4", "--timeout", "0.5", "--model", MODEL]
    with openai_server("--hang-after", "6") as server:
        done = command("run", *options, "--base-url", server.url, "--display", "none")
        assert (done.returncode, lines(done)) == (3, [])
        assert server.stats()["answered"] == 6
    found = kept(home)
    assert sorted(attempt.status for attempt in found) == ["completed"] * 6 + ["failed"] * 6
    assert {attempt.reason.partition(":")[0] for attempt in found if attempt.status == "failed"} == {"timeout"}
    with openai_server() as server:  # it is well again: the same command repeats them, and no more
        assert command("run", *options, "--base-url", server.url, "--display", "none").returncode == 0
        assert server.stats()["asked"] == 6
    assert {attempt.status for attempt in kept(home)} == {"completed"}


# Clocks


async def test_a_clock_that_jumps_changes_neither_durations_nor_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = (1e6 * (number % 3) - 86400.0 * number for number in itertools.count())  # from run to run, into the past
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    asked, golds = questions(8)
    with Store(tmp_path) as store:
        ids = []
        for agent in ("vanilla_rag", "direct", "direct[limits.calls=3]"):
            one = planned(store, agent, asked, golds, ScriptedModel(delay=0.01))
            await replayed(store, [one], asked, golds, concurrency=2)
            ids.append(one.run.id)
            found = attempts(store, one.run)
            assert {attempt.status for attempt in found.values()} == {"completed"}
            timed = [attempt.seconds for attempt in found.values()]
            timed += [
                event.seconds for attempt in found.values() for event in attempt.events if hasattr(event, "seconds")
            ]
            assert len(timed) > len(found) == 8
            assert 0 <= min(timed) <= max(timed) < 60
        assert [run.id for run in store.runs()] == ids
        assert [run.created for run in store.runs()] != sorted(run.created for run in store.runs())
        again = planned(store, "vanilla_rag", asked, golds, ScriptedModel())
        assert again.run.id == ids[0]
        assert (await replayed(store, [again], asked, golds)).calls_made == 0


# Flipped bits


KEYS = {"calls": "key", "blobs": "hash", "attempts": "question_id", "questions": "position", "runs": "number"}


def flip(home: Path, table: str, column: str) -> None:
    """Turn one bit in every row of a column."""
    key = KEYS[table]
    with contextlib.closing(sqlite3.connect(home / "store.sqlite")) as connection, connection:
        for name, data in connection.execute(f"SELECT {key}, {column} FROM {table}").fetchall():
            middle = len(data) // 2
            broken = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (broken, name))


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("calls", "response"),
        *(
            pytest.param(table, column, marks=pytest.mark.slow)
            for table, column in (("blobs", "data"), ("attempts", "body"), ("questions", "body"), ("runs", "body"))
        ),
    ],
)
def test_a_flipped_bit_is_one_clear_line(command: Cli, home: Path, table: str, column: str) -> None:
    options = ["--limit", "3", "--agent", "vanilla_rag[top_k=8]", "--model", MODEL, "--display", "none"]
    with openai_server("--reply-bytes", "2000") as server:
        options += ["--base-url", server.url]
        assert command("run", *options).returncode == 0
        flip(home, table, column)
        commands = [["export", "jsonl", "vanilla_rag", "--out", "x"]]
        if table in ("calls", "blobs", "runs"):  # the others are not read by a new run
            commands.append(["run", *options, "--new"])
        for words in commands:
            done = command(*words)
            assert done.returncode == 2, (words, done.stderr)
            assert len(lines(done)) == 1
            assert "is damaged" in lines(done)[0]


@pytest.mark.parametrize("fault", ["malformed", "cut"])
def test_requests_without_an_answer_are_counted_shown_and_bounded(
    command: Cli, home: Path, server: Running, fault: str
) -> None:
    home.mkdir()
    prices = f'["openai:fault-{fault}-always"]\ninput = 10.0\noutput = 30.0\n'
    (home / "prices.toml").write_text(prices, encoding="utf-8")
    model = ("--model", f"openai:fault-{fault}-always[tries=2]", "--base-url", server.url)
    given = ("--agent", "direct", "--limit", "20", *model, "--concurrency", "1", "--fail-after", "100%")
    done = command("run", *given, "--max-cost", "0.005", "--display", "none")
    asked = sum(attempt.unanswered for attempt in kept(home))
    assert asked == 2 * len(kept(home))
    assert 0 < asked < 40, "the budget counts a request's price"
    assert "the budget of $0.005 is used up: $0.00" in done.stderr, done.stderr
    shown = command("ledger")
    assert "no answer" in shown.stdout
    assert "≥ $0" not in shown.stdout, "what nobody answered may have been billed"
    assert str(asked) in shown.stdout
    total = json.loads(command("ledger", "--json").stdout)["total"]
    (row,) = json.loads(command("compare", "direct", "--json").stdout)["rows"]
    for sums in (total, row):
        assert [sums[name] for name in ("usage", "cost_paid", "cost_uncached")] == [None] * 3
        assert sums["unanswered"] == asked


# Stores that cannot be written, or are no more


def test_a_store_that_can_only_be_read_is_looked_at(command: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("run", "--agent", "direct", "--limit", "4", "--display", "none").returncode == 0
    before = (home / "store.sqlite").read_bytes()
    access = os.access
    kept_back = {home, home / "store.sqlite"}
    # Root may write everywhere, so that a mode alone keeps nobody back here; what SQLite is asked for is real.
    monkeypatch.setattr(
        os, "access", lambda path, mode: not (mode & os.W_OK and path in kept_back) and access(path, mode)
    )
    for given in (
        ("runs", "ls"), ("compare", "direct"), ("trace", "direct", "--format", "text"), ("ledger",),
        ("doctor", "--store"), ("report", "direct", "--out", str(home.parent / "r.html")),
        ("export", "jsonl", "direct", "--out", str(home.parent / "e")),
    ):  # fmt: skip
        done = command(*given)
        assert (done.returncode, lines(done)) == (0, []), (given, done.stderr)
    assert "is read-only here" in lines(command("run", "--agent", "direct", "--limit", "5", "--display", "none"))[0]
    assert (home / "store.sqlite").read_bytes() == before


def test_a_store_of_no_bytes_is_not_taken_for_a_new_one(command: Cli, home: Path) -> None:
    assert command("run", "--agent", "direct", "--limit", "2", "--display", "none").returncode == 0
    (home / "store.sqlite").write_bytes(b"")
    for given in (("runs", "ls"), ("run", "--agent", "direct", "--limit", "2", "--display", "none")):
        done = command(*given)
        assert done.returncode == 2
        assert "is empty (0 bytes), although calls were stored" in lines(done)[0]
    (home / "store.sqlite").unlink()
    assert command("run", "--agent", "direct", "--limit", "2", "--display", "none").returncode == 0
