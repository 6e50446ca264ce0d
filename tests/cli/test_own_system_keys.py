"""Twenty keys that a user's system returns, raises and prints are in no record, export, log or file."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.test_planted_keys import everything
from tests.conftest import Cli, succeeded
from tests.forked import ForkedPython

_PEM = "PRIVATE " + "KEY-----"
KEYS = {
    "OPENAI_API_KEY": "sk-proj-" + "Ab3dEf6hIj9lMn2pQr5tUv",
    "ANTHROPIC_API_KEY": "sk-ant-api03-" + "Qw8rTy7uIo6pAs5dFg",
    "COHERE_API_KEY": "co9Xk27bTq41LmZ08vNr",
    "NCBI_API_KEY": "8f14e45fceea167a5a36dedd4bea2543ab",
    "AWS_ACCESS_KEY_ID": "AKIA" + "J7Q4Z2M8N5P3R6T9",
    "AWS_SECRET_ACCESS_KEY": "w7lrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLE9+kQ",
    "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEBYaDHk4c2Q1ZjZnN2g4ajlr/+==",
    "OPENAI_KEY": "zz-11-yy-22-xx-33",
    "HF_TOKEN": "hf_" + "aZ4bY5cX6dW7eV8fU9gT",
    "GITHUB_TOKEN": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "PGPASSWORD": 's3cret pg "quoted" \\ pass',
    "MY_APP_PASSWORD": "hunter-two-and-nine",
    "DB_PASS": "tr0ub4dor",
    "DATABASE_URL": "postgresql://clinic:p4ss-w0rd!x@db.example.org:5432/notes",
    "REDIS_URL": "redis://:r3dis-Pa55@cache:6379/0",
    "SESSION_COOKIE": "sid=7d793037a0760186574b0282f2f435e7; theme=dark",
    "GOOGLE_CREDENTIALS": json.dumps(
        {"type": "x", "private_key": f"-----BEGIN {_PEM}\nMIIEvQIBADAN9x7\n-----END {_PEM}"}
    ),
    "AZURE_STORAGE_CONNECTION_STRING": "AccountName=clinic;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6I==",
    "SERVICE_JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "MAPS_REQUEST": "https://maps.example.org/v1?key=" + "AIza" + "SyD4x9Kq2Lm7Np3Rt5Vw8Yz1Bc6Df0Gh4Jk",
}
"""Twenty keys under their variables' names."""
PARTS = [
    *(value for name, value in KEYS.items() if name not in ("DATABASE_URL", "REDIS_URL", "MAPS_REQUEST")),
    "p4ss-w0rd!x", "r3dis-Pa55", "7d793037a0760186574b0282f2f435e7", "MIIEvQIBADAN9x7",
    "SyD4x9Kq2Lm7Np3Rt5Vw8Yz1Bc6Df0Gh4Jk",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6I",
]  # fmt: skip
FORMS = {form.encode() for part in PARTS for form in (part, json.dumps(part)[1:-1], repr(part)[1:-1], quote(part))}
HARMLESS = {"MAX_TOKENS": "4096", "TOKENIZERS_PARALLELISM": "false", "PGPORT": "5432", "PGHOST": "db.example.org"}
SYSTEM = """
import json, logging, os, subprocess, sys, time, urllib.parse
NAMES = os.environ["PLANTED"].split()
def shown():
    values = [os.environ[name] for name in NAMES]
    return " | ".join([*values, json.dumps(values), repr(values), *map(urllib.parse.quote, values)])
def printed():
    print(shown()); print(shown(), file=sys.stderr); logging.warning("using %s", shown())
    if "ragrounds" not in sys.modules:  # what a program prints passes the process that started the host
        subprocess.run(["env"])
def tell(prompt):
    printed()
    return f"MAX_TOKENS is 4096, false at db.example.org:5432, plain-setting-4711. {shown()}"
def crash(prompt):
    printed()
    raise RuntimeError(f"connect failed: {shown()}")
def stay(prompt):
    printed()
    with open(os.environ["STARTED"], "w"):
        time.sleep(60)
def graph():
    from typing import TypedDict
    from langgraph.graph import END, START, StateGraph
    class State(TypedDict, total=False):
        question: str
        found: list
        answer: str
    nodes = StateGraph(State)
    nodes.add_node("look", lambda state: {"found": [{"text": shown(), shown(): 1}]})
    nodes.add_node("say", lambda state: {"answer": shown()})
    nodes.add_edge(START, "look"); nodes.add_edge("look", "say"); nodes.add_edge("say", END)
    return nodes.compile()
"""


def pages(data: bytes) -> Iterator[bytes]:
    """The bytes of a file, and what a page of ours holds in base64."""
    yield data
    for text in re.findall(rb"[A-Za-z0-9+/]{200,}={0,2}", data):
        for window in (-15, 15, 31):
            with suppress(ValueError, zlib.error):
                yield zlib.decompress(base64.b64decode(text), window)


def leaks(*folders: Path) -> set[str]:
    """Where a key, or a part of one, is."""
    return {
        f"{where}: {form.decode()}"
        for folder in folders
        for where, data in everything(folder)
        if not where.endswith("keys.py")
        for plain in pages(data)
        for form in FORMS
        if form in plain
    }


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a command with the keys, whose temporary files are in a folder of their own."""
    (tmp_path / "keys.py").write_text(SYSTEM)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return {**KEYS, **HARMLESS, "PLANTED": " ".join(KEYS), "STARTED": str(tmp_path / "started")}


HOSTED, IN_PROCESS = ([f"keys.py:{name}{where}" for name in ("tell", "crash", "graph")]
                      for where in ("[share_process=true]", "[in_process=true]"))  # fmt: skip


@pytest.mark.parametrize(
    ("agents", "limit"),
    [
        ([*HOSTED[:2], IN_PROCESS[2]], 1),
        pytest.param([*HOSTED, *IN_PROCESS], 2, marks=[pytest.mark.slow, pytest.mark.weekly]),
    ],
    ids=["a question", "all"],
)
def test_keys_of_the_environment_are_in_no_record_and_not_printed(
    forked_cli: Cli, command: Cli, tmp_path: Path, planted: dict[str, str], agents: list[str], limit: int
) -> None:
    words = [word for agent in agents for word in ("--agent", agent)]
    done = forked_cli("run", *words, "--limit", str(limit), "--display", "none", timeout=300, **planted)
    assert done.returncode == 3, done.stderr
    assert not [form for form in FORMS if form in (done.stdout + done.stderr).encode()]
    assert leaks(tmp_path) == set()
    telling = [agent for agent in agents if agent.startswith("keys.py:tell")]
    succeeded(command("export", "jsonl", *telling, "--out", str(tmp_path / "out.jsonl")))
    redacted = b"MAX_TOKENS is 4096, false at db.example.org:5432, plain-setting-4711. [key]"
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert [redacted in line for line in lines] == [True] * len(telling) * limit
    assert "texts of the system held keys" in " ".join(done.stdout.split())
    checked = command("doctor", "--store", LATER_API_KEY="plain-setting-4711", **planted)
    assert "Wrong: keys of this environment are in " in checked.stdout, "which has this key only now"
    for agent in telling:
        run = "-".join(re.findall(r"[\w.]+", agent))
        pattern = rf"attempt {re.escape(run)}-\w+, .*, epoch 0: holds LATER_API_KEY of this environment"
        assert re.search(pattern, checked.stdout), checked.stdout


def test_the_search_finds_keys_that_are_there(tmp_path: Path) -> None:
    page = base64.b64encode(gzip.compress(KEYS["DB_PASS"].encode() + os.urandom(200))).decode()
    (tmp_path / "page.html").write_text(f"<script>{page}</script>")
    assert len(leaks(tmp_path)) == 1


@pytest.mark.slow
def test_keys_are_in_no_export_and_no_temporary_file(forked_cli: Cli, tmp_path: Path, planted: dict[str, str]) -> None:
    """Pass on what was recorded, in a shell without the keys; then kill a run."""
    agents = [f"keys.py:{name}" for name in ("tell", "crash", "graph")]
    words = [word for agent in agents for word in ("--agent", agent)]
    assert forked_cli("run", *words, "--limit", "3", "--display", "none", **planted).returncode == 3
    said = []
    for form in ("jsonl", "store", "otel"):
        said.append(forked_cli("export", form, agents[0], "--out", str(tmp_path / f"out.{form}")))
    said.append(forked_cli("report", *agents, "--out", str(tmp_path / "report.html")))
    said.append(forked_cli("publish", str(tmp_path / "published"), *agents, "--bundle"))
    assert list((tmp_path / "published").glob("*.bundle.jsonl")), "the bundle is searched, too"
    said.append(forked_cli("journal", "write", *agents, "--out", str(tmp_path / "calls.jsonl")))
    said += [
        forked_cli(*words, agent)
        for agent in agents
        for words in (("runs", "show", "--full"), ("compare", "--full", "--json"))
    ]
    said.append(forked_cli("trace", *agents, "--format", "json"))
    said.append(forked_cli("doctor", "--store", **planted))
    assert "keys of this" not in said[-1].stdout
    assert not [done for done in said if done.returncode], said
    printed = "".join(done.stdout + done.stderr for done in said)
    assert not [form for form in FORMS if form in printed.encode()]
    killed = ForkedPython(
        [sys.executable, "-m", "ragrounds", "run", "--agent", "keys.py:stay", "--limit", "2", "--display", "none"],
        cwd=tmp_path, env={**os.environ, **planted}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    while not Path(planted["STARTED"]).exists():
        assert killed.poll() is None
        time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    output = killed.communicate(timeout=30)[0]
    assert not [form for form in FORMS if form in output]
    assert leaks(tmp_path) == set()
