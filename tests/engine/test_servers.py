"""Which server stands behind an address or an alias. Real servers on loopback, through the command line."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.models.started_server import free_port
from tests.conftest import Cli
from tests.servers.http_script import Told, answering
from tests.servers.process import Running, openai_server

RUN = ("run", "--agent", "direct", "--limit", "4", "--model", "openai:m", "--display", "none", "--json")


@contextmanager
def serving(*more: str, root: str = "/weights/a", length: int = 8192, owner: str = "me") -> Iterator[Running]:
    entry = {"id": "m", "owned_by": owner, "root": root, "max_model_len": length, "created": length}
    with openai_server("--listed", json.dumps([entry]), *more) as running:
        yield running


def identities(home: Path) -> list[str]:
    with Store(home) as store:
        return [run.identity["models"]["model"] for run in store.runs()]


def asked(*servers: Running) -> int:
    return sum(server.stats()["asked"] for server in servers)


@pytest.mark.slow
def test_two_other_addresses_are_not_answered_from_the_journal_of_the_first(command: Cli, home: Path) -> None:
    with openai_server() as a, openai_server() as b, openai_server() as c, openai_server() as d:
        first, second = ("--base-url", a.url, "--base-url", b.url), ("--base-url", f"{c.url},{d.url}")
        refused = command(*RUN, *first)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"ragrounds: 2 servers share the calls ({a.url}, {b.url}), and the group has")
        assert "--alias NAME, or alias=NAME inside the model" in refused.stderr
        assert "4 model calls made" in command(*RUN, *first, "--alias", "lab").stderr
        assert command(*RUN, *second).returncode == 2
        assert "4 model calls made, 0 answered" in command(*RUN, *second, "--alias", "other").stderr
        assert (asked(a, b), asked(c, d)) == (4, 4)
    assert identities(home) == ["openai:m[server=lab]", "openai:m[server=other]"]


@pytest.mark.slow
def test_a_group_grows_moves_and_shrinks_under_its_name(command: Cli, home: Path) -> None:
    with openai_server() as a, openai_server() as b, openai_server() as c:
        for urls, made in ((f"{a.url},{b.url}", 4), (f"{a.url},{b.url},{c.url}", 0), (c.url, 0)):
            done = command(*at(urls, "--alias", "lab", "--new"))
            assert f"{made} model calls made, {4 - made} answered" in done.stderr
        assert (asked(a, b), asked(c)) == (4, 0)
    assert set(identities(home)) == {"openai:m[server=lab]"}


@pytest.mark.parametrize("where", ["model", "settings", "environment"])
def test_a_group_is_named_wherever_its_addresses_stand(command: Cli, where: str, tmp_path: Path) -> None:
    group = "http://127.0.0.1:1/v1,http://127.0.0.1:2/v1"
    environment, options = {}, ["--agent", "direct", "--limit", "1", "--display", "none"]
    if where == "model":
        options += ["--model", f'openai:m[base_url="{group}"]']
    elif where == "settings":
        (tmp_path / "settings.toml").write_text(f'base_url = "{group}"\nmodel = "openai:m"\n')
        environment = {"RAGROUNDS_CONFIG": str(tmp_path / "settings.toml")}
    else:
        environment = {"RAGROUNDS_BASE_URL": group, "RAGROUNDS_MODEL": "openai:m"}
    done = command("run", *options, **environment)
    assert (done.returncode, "the group has no name" in done.stderr) == (2, True)
    named = command("run", *options, **environment, RAGROUNDS_ALIAS="lab")
    if where == "model":
        assert "the group has no name" in named.stderr  # the settings' name is for the settings' addresses
    else:
        assert "Is the server running, and is --base-url right?" in named.stderr


def test_servers_that_say_nothing_are_known_by_one_of_their_addresses(command: Cli) -> None:
    nothing = ("--listed", json.dumps([{"id": "another"}, {"id": "third"}]))
    with openai_server(*nothing) as a, openai_server(*nothing) as b, openai_server(*nothing) as c:
        assert "4 model calls made" in command(*at(f"{a.url},{b.url}", "--alias", "lab", "--new")).stderr
        moved = command(*at(c.url, "--alias", "lab", "--new"))
        assert moved.returncode == 2
        assert f"on {time.strftime('%Y')}" in moved.stderr
        assert f", now addresses {c.url}" in moved.stderr
        assert "0 model calls made, 4 answered" in command(*at(f"{b.url},{c.url}", "--alias", "lab", "--new")).stderr
        assert "0 model calls made, 4 answered" in command(*at(c.url, "--alias", "lab", "--new")).stderr
        assert asked(a, b, c) == 4


def test_one_server_that_says_nothing_is_another_at_another_address(command: Cli, home: Path) -> None:
    """One alias, one model name, and a list of models without it: the second server's run is not complete already."""
    nothing = ("--listed", json.dumps([{"id": "another"}, {"id": "third"}]))
    with openai_server(*nothing) as a, openai_server(*nothing) as b:
        assert "4 model calls made" in command(*at(a.url, "--alias", "lab")).stderr
        assert "already complete" in command(*at(a.url, "--alias", "lab")).stderr
        stopped = command(*at(b.url, "--alias", "lab"))
        assert stopped.returncode == 2
        assert f"it reported addresses {a.url}, now addresses {b.url}" in stopped.stderr
        kept_apart = command(*at(b.url, "--alias", "lab", "--server-changed", "new"))
        assert "4 model calls made, 0 answered" in kept_apart.stderr
        assert "already complete" in command(*at(b.url, "--alias", "lab")).stderr
        assert (asked(a), asked(b)) == (4, 4)
    first, second = identities(home)
    assert ("fingerprint=" in first, "fingerprint=" in second) == (False, True)


def test_an_alias_alone_names_nothing(command: Cli) -> None:
    done = command("run", "--agent", "direct", "--model", "openai:m", "--alias", "lab")
    assert done.returncode == 2
    assert "--alias lab is the name of a server or a group: give --base-url, too." in done.stderr


def test_servers_of_a_group_that_differ_stop_the_run(command: Cli) -> None:
    with serving() as a, serving(root="/weights/b", length=4096) as b:
        done = command(*RUN, "--base-url", f"{a.url},{b.url}", "--alias", "lab")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"{a.url} reports root /weights/a, {b.url} reports root /weights/b. Servers" in line
        assert asked(a, b) == 0


def test_another_window_or_folder_is_no_other_server_and_prompts_fit_the_window(command: Cli, home: Path) -> None:
    for root, length, made in (("/weights/m", 8192, 4), ("/moved/m", 4096, 0)):
        with serving(root=root, length=length) as server:
            done = command(*at(server.url, "--alias", "lab"))
            assert f"{made} model calls made" in done.stderr, done.stderr
            assert f"reports a window of {length:,} tokens" in done.stderr
    with Store(home) as store:
        assert [run.identity["windows"]["model"] for run in store.runs()] == [8192, 4096]


def test_an_agent_whose_tools_the_chat_template_drops_is_named(command: Cli) -> None:
    pages = {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
        "/props": {"chat_template_caps": {"supports_tools": False}, "default_generation_settings": {"n_ctx": 3000}},
    }
    choice = {"message": {"content": "The answer is A."}, "finish_reason": "stop"}
    with answering(lambda asked, before: Told(pages.get(asked.path, {"choices": [choice]}))) as server:
        line = ("run", "--limit", "1", "--model", "openai:m", "--base-url", f"{server.url}/v1", "--display", "none")
        done = command(*line, "--agent", "tool_agent", "--agent", "direct")
    named = f"The chat template of openai:m[server={server.url}/v1] leaves out tools: tool_agent"
    assert re.search(re.escape(named) + r"\S* can call none", done.stderr), done.stderr


def at(url: str, *more: str) -> tuple[str, ...]:
    return (*RUN, "--base-url", url, *more)


def began(command: Cli, port: str) -> None:
    """A run by the first server, which is started again and is known."""
    with serving("--port", port) as server:
        assert "4 model calls made" in command(*at(server.url)).stderr
    with serving("--port", port) as server:
        assert "0 model calls made, 4 answered" in command(*at(server.url, "--new")).stderr


@pytest.mark.slow
def test_another_server_at_an_address_stops_the_command(command: Cli, home: Path) -> None:
    began(command, port := str(free_port()))
    runs = run_ids(home)
    with serving("--port", port, root="/weights/b") as server:
        for more in ((), ("--new", "--journal", "fresh", "--temperature", "0.5")):
            stopped = command(*at(server.url, *more))
            assert stopped.returncode == 2
            (line,) = stopped.stderr.splitlines()
            assert f"Another server answers at {server.url} for openai:m[server=" in line
            assert "it reported root /weights/a, now root /weights/b" in line
            assert "Start the earlier server, or give --server-changed new" in line
        resumed = command("runs", "resume", runs[0])
        assert resumed.returncode == 2
        assert f"Start the earlier server to resume {runs[0]}, or begin a new run with" in resumed.stderr
        assert asked(server) == 0
    assert run_ids(home) == runs


@pytest.mark.slow
def test_another_server_at_an_address_is_kept_apart(command: Cli, home: Path) -> None:
    began(command, port := str(free_port()))
    with serving("--port", port, root="/weights/b") as server:
        new = command(*at(server.url, "--server-changed", "new"))
        assert (new.returncode, asked(server)) == (0, 4)
        assert "4 model calls made, 0 answered" in new.stderr
        # From now on it is known: nothing has to be said again, and its run resumes.
        assert "0 model calls made, 4 answered" in command(*at(server.url, "--new")).stderr
        other = run_ids(home)[2]
        assert command("runs", "resume", other).returncode == 0
        assert asked(server) == 4
    first, _, second, _ = identities(home)
    assert "fingerprint=" not in first
    assert "fingerprint=" in second
    assert "root=/weights/b" in command("runs", "show", other, "--full").stdout


@pytest.mark.slow
def test_each_server_is_recognised_when_it_is_back(command: Cli, home: Path) -> None:
    began(command, port := str(free_port()))
    with serving("--port", port, root="/weights/b") as server:
        assert command(*at(server.url, "--server-changed", "new")).returncode == 0
    first, _, other = run_ids(home)
    with serving("--port", port) as server:
        assert "0 model calls made, 4 answered" in command(*at(server.url, "--new")).stderr
        assert command("runs", "resume", first).returncode == 0
        assert f"to resume {other}" in command("runs", "resume", other).stderr
        assert asked(server) == 0
    # A replay asks nobody: the server of the last time is meant, or the resumed run's own.
    assert "0 model calls made, 4 answered" in command(*at(server.url, "--new", "--journal", "replay")).stderr
    assert identities(home)[-1] == identities(home)[0]


def run_ids(home: Path) -> list[str]:
    with Store(home) as store:
        return [run.id for run in store.runs()]


@pytest.mark.slow
def test_what_is_not_told_is_no_change(command: Cli, home: Path) -> None:
    port = free_port()
    entry: dict[str, Any] = {"id": "m", "owned_by": "vllm", "root": "/w"}
    told = json.dumps([entry])
    with openai_server("--port", str(port), "--listed", told) as server:
        here = ("--base-url", server.url)
        assert "4 model calls made" in command(*RUN, *here).stderr
    with openai_server("--port", str(port), "--listed", told, "--version", "0.9.1") as server:
        assert "0 model calls made, 4 answered" in command(*RUN, *here, "--new").stderr
    with openai_server("--port", str(port), "--listed", told, "--version", "0.9.2") as server:
        assert "it reported version 0.9.1, now version 0.9.2" in command(*RUN, *here).stderr
    with openai_server("--port", str(port), "--listed", json.dumps([{"id": "x"}, {"id": "y"}])) as server:
        assert "0 model calls made" in command(*RUN, *here).stderr  # a router that does not list it
    first, second = identities(home)
    assert first == second


def test_a_look_is_no_call_and_a_replay_looks_at_nothing(command: Cli) -> None:
    with serving(owner="vllm") as server:
        here = ("--base-url", server.url)
        assert "4 model calls made" in command(*RUN, *here).stderr
        assert (asked(server), server.stats()["looked"]) == (4, 2)
        command(*RUN, *here, "--new", "--journal", "replay")
        assert server.stats()["looked"] == 2


@pytest.mark.slow
def test_workers_go_by_what_their_leader_was_told(command: Cli, home: Path) -> None:
    port = free_port()
    with serving("--port", str(port)) as server:
        here = ("--base-url", server.url)
        command(*RUN, *here)
    with serving("--port", str(port), root="/weights/b") as server:
        done = command(*RUN, *here, "--server-changed", "new", "--workers", "2")
        assert "4 model calls made, 0 answered" in done.stderr
        assert server.stats()["looked"] == 2  # /models and /version, once
    assert "fingerprint=" in identities(home)[1]


@pytest.mark.slow
def test_another_model_that_answers_is_said(command: Cli, home: Path, tmp_path: Path) -> None:
    # The third reply and all after it come from another model, without a word.
    with openai_server("--says", "m-2024-08-06,m-2024-08-06,cheap") as server:
        line = (*RUN[:-1], "--base-url", server.url, "--concurrency", "1")
        done = command(*line)
    said = "was answered by cheap in 2 of 4 calls, asked m."
    (run,) = run_ids(home)
    assert f"Note: {run} {said}" in " ".join(done.stdout.split())
    shown = command("runs", "show", run, "--full").stdout
    assert said in " ".join(shown.split())
    assert "m-2024-08-06 in 2 calls" in shown
    (row,) = json.loads(command("compare", run, "--json").stdout)["rows"]
    (counts,) = row["answered_by"].values()
    assert counts == {"m-2024-08-06": 2, "cheap": 2}
    page = tmp_path / "report.html"
    assert command("report", run, "--out", str(page)).returncode == 0
    assert said in page.read_text()
    # What the journal answers is what was answered then.
    again = command(*line, "--new", "--json")
    assert any(said in note for note in json.loads(again.stdout)["notes"])
