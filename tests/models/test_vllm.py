"""`vllm:` models with a stand-in for `vllm serve`: started, waited for, asked, stopped, whatever ends it or us."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Message
from ragrounds.evals.store.store import Store
from ragrounds.models.providers import open_model
from ragrounds.models.started import served
from tests.conftest import Cli
from tests.forked import ForkedPython
from tests.servers.process import ROOT, alive, gone, openai_server

NAME = "vllm:lab/tiny-7b"
QUIET: Callable[[str], None] = lambda line: None  # noqa: E731


class Seen:
    """What the stand-ins wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[dict[str, Any]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def vllm(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """A stand-in named `vllm` on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "vllm"
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.servers.vllm_stand_in import main\nmain()\n"
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    seen = tmp_path / "seen.jsonl"
    monkeypatch.setenv("STAND_IN_SEEN", str(seen))
    return Seen(seen)


async def begun(vllm: Seen) -> None:
    """Until a stand-in runs."""
    while not vllm.all():  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def received(port: int) -> int:
    """Calls that a stand-in has received."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=10) as answer:
            return int(json.load(answer)["asked"])
    except OSError:  # not yet
        return 0


def asked(text: str = "question") -> Request:
    return Request(messages=(Message("user", text),))


async def test_the_first_call_starts_the_server_and_the_last_model_stops_it(
    vllm: Seen, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("ragrounds.models.started.say", told.append)
    first = open_model(
        f"{NAME}[temperature=0,tensor_parallel=2,max_model_len=4096,extra='--seed 7']".replace("'", '"'),
        home=home / "elsewhere",
    )
    second = open_model(
        f"{NAME}[temperature=1,tensor_parallel=2,max_model_len=4096,extra='--seed 7']".replace("'", '"')
    )
    assert vllm.all() == []
    assert first.window == 4096
    replies = await asyncio.gather(*(model.complete(asked(), []) for model in (first, second, first)))
    assert all("answer_choice" in reply.text for reply in replies)
    (seen,) = vllm.all()
    assert seen["arguments"][:2] == ["serve", "lab/tiny-7b"]
    for pair in (
        ("--tensor-parallel-size", "2"),
        ("--max-model-len", "4096"),
        ("--seed", "7"),
        ("--host", "127.0.0.1"),
    ):
        assert pair in list(zip(seen["arguments"], seen["arguments"][1:], strict=False))
    await first.close()
    assert alive(seen["pid"])
    await second.close()
    assert gone(seen["pid"], seen["engine"])
    (log,) = (home / "elsewhere" / "logs").iterdir()
    assert "loading lab/tiny-7b" in log.read_text()
    assert "starting lab/tiny-7b" in told[0]
    assert "ready" in told[-1]


async def test_it_is_waited_for_until_it_answers(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_LOADS", "1.5")
    model = open_model(NAME)
    try:
        assert (await model.complete(asked(), [])).text
    finally:
        await model.close()


async def test_a_server_that_fails_to_start_says_its_last_lines(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "No available memory for the cache blocks")
    model = open_model(NAME)
    with pytest.raises(StopRun, match=r"could not serve lab/tiny-7b.*exit code 1.*No available memory.*\.log"):
        await model.complete(asked(), [])
    await model.close()
    assert gone(vllm.all()[0]["pid"], vllm.all()[0]["engine"])


async def test_a_start_has_a_time_limit(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_LOADS", "60")
    model = open_model(f"{NAME}[start_timeout=1]")
    with pytest.raises(StopRun, match="not ready after 1 s"):
        await model.complete(asked(), [])
    await model.close()
    assert gone(*(seen["pid"] for seen in vllm.all()))


async def test_closing_gives_up_a_start(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_LOADS", "60")
    model = open_model(NAME)
    call = asyncio.create_task(model.complete(asked(), []))
    await begun(vllm)
    await model.close()
    with pytest.raises(StopRun, match="was cancelled"):
        await call
    assert gone(vllm.all()[0]["pid"])


async def test_a_server_that_dies_ends_every_call_with_one_line(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_LATENCY", "30")
    model = open_model(NAME)
    calls = [asyncio.create_task(model.complete(asked(f"q{i}"), [])) for i in range(5)]
    await begun(vllm)
    while await asyncio.to_thread(received, vllm.all()[0]["port"]) < len(calls):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    os.kill(vllm.all()[0]["pid"], signal.SIGKILL)
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {StopRun}
    assert "The vLLM server of lab/tiny-7b ended by signal 9" in str(ends[0])
    with pytest.raises(StopRun, match="ended by signal 9"):
        await model.complete(asked(), [])
    await model.close()
    assert gone(vllm.all()[0]["engine"])


@pytest.mark.slow
async def test_a_call_that_its_caller_cancels_is_only_cancelled(vllm: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_LATENCY", "2")
    model = open_model(NAME)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await asyncio.gather(*(model.complete(asked(), []) for _ in range(2)), asyncio.sleep(60))
    assert (await model.complete(asked(), [])).text
    await model.close()


async def test_without_vllm_one_line_says_what_to_do(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    model = open_model(NAME)
    with pytest.raises(UserError, match=r"ragrounds\[vllm\].*`base_url`"):
        await model.complete(asked(), [])
    await model.close()


def test_the_identity_is_the_model_and_never_the_server() -> None:
    plain = open_model(f"{NAME}[temperature=0]").spec
    for other in (
        'base_url="http://127.0.0.1:1234/v1"',
        "tensor_parallel=4",
        "max_model_len=9",
        "gpu_memory=0.5",
        "start_timeout=3",
        "price_gpu_hour=2.5",
        "gpus=8",
    ):
        assert open_model(f"{NAME}[temperature=0,{other}]").spec == plain, other
    for other in ("revision=abc", "quantization=fp8", "dtype=bfloat16", 'extra="--chat-template x"', "top_p=0.5"):
        assert open_model(f"{NAME}[temperature=0,{other}]").spec != plain, other
    with pytest.raises(UserError, match="no parameter 'tensor_parallel'"):
        open_model('openai:x[base_url="http://127.0.0.1:1/v1",tensor_parallel=2]')


def test_a_line_of_arguments_is_never_given_to_a_shell(vllm: Seen, tmp_path: Path, home: Path) -> None:
    harm = tmp_path / "harm"
    with served([f"{NAME}[extra=\"--note '$(touch {harm})' ; touch {harm}\"]"], home, QUIET):
        assert f"$(touch {harm})" in vllm.all()[0]["arguments"]
    assert not harm.exists()
    with pytest.raises(UserError, match="cannot be read as arguments"):
        open_model(f'{NAME}[extra="--note \'open"]')


async def test_other_processes_join_what_the_first_one_started(vllm: Seen, home: Path) -> None:
    texts = [f"{NAME}[temperature=0]", f"{NAME}[temperature=1]", "baseline:extractive"]
    with served(texts, home, QUIET) as joined:
        assert joined["baseline:extractive"] == "baseline:extractive"
        assert len(vllm.all()) == 1
        for text in texts[:2]:
            model = open_model(joined[text])
            assert model.spec == open_model(text).spec
            assert (await model.complete(asked(), [])).text
            await model.close()
        assert alive(vllm.all()[0]["pid"])
    assert gone(vllm.all()[0]["pid"])


def test_providers_keys_are_not_handed_to_the_server(vllm: Seen, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghijkl")
    with served([NAME], home, QUIET):
        names = vllm.all()[0]["variables"]
    assert "OPENAI_API_KEY" not in names
    assert "VLLM_NO_USAGE_STATS" in names


def run_line(*more: str) -> list[str]:
    line = [sys.executable, "-m", "ragrounds", "run", "--agent", "direct", "--limit", "12", "--model", NAME]
    return [*line, "--display", "none", "--concurrency", "2", *more]


@pytest.mark.slow
def test_a_run_killed_outright_leaves_no_server_and_goes_on(vllm: Seen, home: Path, forked_cli: Cli) -> None:
    environment = {**os.environ, "STAND_IN_LATENCY": "0.3"}
    run = ForkedPython(run_line(), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (home.exists() and calls(home) >= 3):
        time.sleep(0.05)
    assert run.poll() is None
    (seen,) = vllm.all()
    run.kill()
    run.wait()
    assert gone(seen["pid"], seen["engine"])
    before = calls(home)
    assert before >= 3
    done = forked_cli("run", "--agent", "direct", "--limit", "12", "--model", NAME, "--display", "none", "--json")
    assert done.returncode == 0, done.stderr
    assert vllm.all()[1]["port"] != seen["port"]
    made = re.search(r"(\d+) model calls made, ", done.stderr)
    assert made, done.stderr
    # A reply that had arrived when the run was killed is in no table yet, and is not asked for again.
    assert 12 - before - int(made[1]) in range(3), "two were in flight"
    with Store(home) as store:
        assert len(store.runs()) == 1
    assert gone(vllm.all()[1]["pid"], vllm.all()[1]["engine"])
    # The journal answers everything now: nothing is started.
    again = forked_cli(
        "run", "--agent", "direct", "--limit", "12", "--model", NAME, "--new", "--display", "none", "--json"
    )
    assert again.returncode == 0, again.stderr
    assert len(vllm.all()) == 2
    assert "0 model calls made, 12 answered from the journal" in again.stderr


def calls(home: Path) -> int:
    try:
        with Store(home) as store, store.engine.connect() as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM calls").scalar() or 0)
    except Exception:  # it is being made just now
        return 0


@pytest.mark.slow
def test_a_run_joins_a_server_that_is_there(vllm: Seen, forked_cli: Cli) -> None:
    with openai_server() as server:
        done = forked_cli(*run_line("--base-url", server.url)[3:])
        assert done.returncode == 0, done.stderr
        assert server.stats()["asked"] == 12
    assert vllm.all() == []
    assert server.url not in done.stderr.partition("calls made")[0]
