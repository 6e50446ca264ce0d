"""`ragrounds gate`: exit codes, JUnit, Markdown, stored runs, a committed journal, killed and resumed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ragrounds as rr
from tests.conftest import Cli
from tests.servers.process import openai_server

HEAD = """
[runs]
new = "vanilla_rag[top_k=8]"
old = "direct"
[run]
benchmark = "sample"
"""
GO = '[critical]\n"not worse" = "accuracy(new) - accuracy(old) > -10%"\n'
REST = """
[supporting]
"speaks" = "refused(new) < 40%"
[advisory]
"at once" = { claim = "seconds(new) < 0.0001", most = 0.001 }
"""


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "policy.toml").write_text(text)
    return str(tmp_path / "policy.toml")


@pytest.mark.slow
def test_the_three_verdicts_with_their_files_and_codes(command: Cli, tmp_path: Path) -> None:
    go = command("gate", written(tmp_path, HEAD + GO + REST), "--junit", "gate.xml", "--display", "none")
    assert go.returncode == 0, go.stderr
    lines = go.stdout.splitlines()
    assert lines[0].startswith("GO after ")
    assert lines[0].endswith(" of 89 questions: every critical rule holds.")
    assert "  holds       critical    not worse: accuracy(new) - accuracy(old) = 0." in go.stdout
    assert "  fails       advisory    at once: " in go.stdout
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert suite.attrib == {
        "name": "ragrounds gate policy.toml", "tests": "3", "failures": "0", "errors": "0",
        "skipped": suite.attrib["skipped"],
    }  # fmt: skip
    assert [case.get("classname") for case in suite.findall("testcase")] == [
        "gate.critical", "gate.supporting", "gate.advisory",
    ]  # fmt: skip
    asked = json.loads(command("gate", "policy.toml", "--json", "--display", "none").stdout)
    assert asked["verdict"] == "GO"
    assert asked["questions"] < 89  # it ended early, and gives the same when it is asked again
    assert lines[0].startswith(f"GO after {asked['questions']} ")

    no = command("gate", written(tmp_path, HEAD + GO.replace("> -10", "> 90")), "--markdown", "--junit", "no.xml")
    assert no.returncode == 1, no.stderr
    assert no.stdout.startswith("**NO-GO after ")
    assert "| critical | not worse | fails |" in no.stdout
    (failed,) = ElementTree.parse(tmp_path / "no.xml").getroot().iter("failure")
    assert (failed.get("message") or "").startswith("fails: accuracy(new) - accuracy(old) = ")

    text = HEAD + '[critical]\n"x" = "accuracy(new) > 55%"\n'
    open_ = command("gate", written(tmp_path, text), "--max-questions", "9", "--junit", "open.xml")
    assert open_.returncode == 4, open_.stderr
    assert open_.stdout.startswith("UNDECIDED after 9 of 9 questions: a critical rule is not decided.")
    assert ElementTree.parse(tmp_path / "open.xml").getroot().get("errors") == "1"


@pytest.mark.slow
def test_stored_runs_by_name_and_what_is_refused(command: Cli, home: Path, tmp_path: Path) -> None:
    rr.run("sample", ["direct", "vanilla_rag[top_k=8]"], home=home, progress=False)
    stored = HEAD.partition("[run]")[0]
    done = command("gate", written(tmp_path, stored + GO + REST))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("GO after ")
    found = rr.gate(tmp_path / "policy.toml", home=home)
    assert found.verdict == "GO"
    assert found.run is None
    assert str(found).startswith("GO after ")
    for text, said in (
        (stored.replace("direct", "dirct") + GO, "dirct"),
        (stored + GO.replace('"accuracy', '{ dataset = "smple", claim = "accuracy').replace('%"', '%" }'), "'smple'"),
        ('scorer = "rouge-l"\n' + stored + GO, "rouge-l"),
        (HEAD + "agents = ['x']\n" + GO, "[run] has no key 'agents'"),
        (HEAD + "limitt = 3\n" + GO, "Did you mean 'limit'"),
        (HEAD + "limit = 'x'\n" + GO, "is no number"),
        (HEAD + "journal = 'none.jsonl'\n" + GO, "none.jsonl"),
    ):
        wrong = command("gate", written(tmp_path, text))
        assert wrong.returncode == 2
        assert said in wrong.stderr
        assert len(wrong.stderr.strip().splitlines()) == 1
    assert command("gate", "nowhere.toml").returncode == 2


def _policy(url: str, limit: str = "10%") -> str:
    return f"""
seed = 2
error = 0.001
[runs]
one = "direct"
two = "direct_cot"
[run]
model = "openai:served"
base_url = "{url}"
concurrency = 2
[critical]
"right" = "accuracy(one) > {limit}"
"""


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_verdict_and_replays_for_nothing(
    command: Cli, tmp_path: Path
) -> None:
    with openai_server("--latency", "0.05", "--jitter", "0.05") as server:
        gate = ["gate", written(tmp_path, _policy(server.url)), "--json", "--display", "none"]
        found = []
        for home, kill in (("whole", False), ("killed", True)):
            environment = {"RAGROUNDS_HOME": str(tmp_path / home), "OPENAI_API_KEY": "k"}
            if kill:
                server.kills([sys.executable, "-m", "ragrounds", *gate], {**os.environ, **environment}, after=6)
            done = command(*gate, **environment)
            assert done.returncode in (0, 1), done.stderr
            found.append(json.loads(done.stdout))
        whole, killed = found
        assert killed == whole
        runs = ["direct", "direct_cot", "--out", str(tmp_path / "calls.jsonl")]
        assert command("journal", "write", *runs, **environment).returncode == 0
        asked = server.stats()["asked"]
        journal = str(tmp_path / "calls.jsonl")
        replayed = command(*gate, "--journal", journal, RAGROUNDS_HOME=str(tmp_path / "elsewhere"))
        assert server.stats()["asked"] == asked
    assert json.loads(replayed.stdout)["verdict"] == whole["verdict"], replayed.stderr
    assert json.loads(replayed.stdout)["questions"] == whole["questions"]


@pytest.mark.slow
def test_a_rule_on_seconds_gets_the_same_verdict_from_a_journal(command: Cli, tmp_path: Path) -> None:
    rule = '"fast" = { claim = "seconds(one) < 0.2", most = 0.25 }'
    with openai_server("--latency", "0.4") as server:
        text = _policy(server.url).replace('"right" = "accuracy(one) > 10%"', rule).replace("0.001", "0.05")
        gate = ["gate", written(tmp_path, text), "--json", "--display", "none"]
        live = command(*gate, OPENAI_API_KEY="k")
        assert live.returncode == 1, live.stderr
        journal = str(tmp_path / "calls.jsonl")
        assert command("journal", "write", "direct", "direct_cot", "--out", journal).returncode == 0
        replayed = command(*gate, "--journal", journal, RAGROUNDS_HOME=str(tmp_path / "elsewhere"))
    assert replayed.returncode == 1, replayed.stderr
    for found in (json.loads(live.stdout), json.loads(replayed.stdout)):
        assert found["verdict"] == "NO-GO"
    assert json.loads(replayed.stdout)["questions"] == json.loads(live.stdout)["questions"]
