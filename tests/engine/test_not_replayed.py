"""A replay of several agents, one of which cannot be replayed; and what a miss says."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import StopRun
from tests.servers.process import Running

ASKS = """
import os, urllib.request
import urllib3

def ask(question):
    said = f"Answer this, as {os.environ.get('NOW', 'then')} is: {question}"
    body = {"model": "gpt", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": said}]}
    answer = urllib3.request("POST", URL + "/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]

def other(question):
    return urllib.request.urlopen(URL.replace("/v1", "/stats")).read().decode()[:1]
"""


@pytest.mark.slow
def test_one_agent_that_cannot_be_replayed_does_not_refuse_the_others(
    server: Running, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ways.py").write_text(ASKS + f"URL = {server.url!r}\n")
    monkeypatch.chdir(tmp_path)
    agents = ["./ways.py:ask", "./ways.py:other", "direct"]
    first = rr.run("sample", agents, limit=2, home=home, progress=False)
    assert not first.failures
    before = server.account().calls
    again = rr.run("sample", agents, limit=2, home=home, journal="replay", new=True, progress=False)
    assert [dict(row.statuses).get("completed", 0) for row in again.comparison.rows] == [2, 0, 2]
    ((why, count),) = again.failures
    assert ("by http.client was asked for, which no journal holds; nothing was sent" in why, count) == (True, 2)

    monkeypatch.setenv("NOW", "now")
    drifted = rr.run("sample", [agents[0], "direct"], limit=2, home=home, journal="replay", new=True, progress=False)
    assert {row.run: dict(row.statuses).get("completed") for row in drifted.comparison.rows}[drifted.runs[1].id] == 2
    assert sum(count for _, count in drifted.failures) == 2
    assert "not in the journal" in drifted.failures[0][0]
    with pytest.raises(StopRun) as caught:
        rr.run("sample", agents[0], limit=2, home=home, journal="replay", new=True, progress=False)
    text = str(caught.value)
    assert "The journal holds 1 call of this model at this question; it differs in message 2 (user): " in text
    assert "as now is: " in text
    assert "was “Answer this, as then is: " in text
    assert server.account().calls == before


def test_what_an_older_run_had_not_recorded_refuses_no_replay(
    server: Running, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.url.replace("/v1", "/stats")
    asks = f"def ask(question):\n    return urllib3.request('GET', {address!r}).data.decode()[:1]\n"
    (tmp_path / "page.py").write_text(f"import urllib3\n{asks}")
    (tmp_path / "mine.toml").write_text('graph = "page.py:ask"\nsummary = "a page"\n')
    monkeypatch.chdir(tmp_path)
    how = {"limit": 1, "home": home, "progress": False}
    assert not rr.run("sample", "./mine.toml", **how).failures  # type: ignore[arg-type]
    with (tmp_path / "mine.toml").open("a") as file:
        file.write(f'record = ["{address}"]\n')
    recorded = rr.run("sample", "./mine.toml", **how)  # type: ignore[arg-type]
    assert (recorded.failures, recorded.searches, recorded.tool_calls) == ((), 0, 1)
    before = server.account().calls
    assert not rr.run("sample", "./mine.toml", new=True, journal="replay", **how).failures  # type: ignore[arg-type]
    assert server.account().calls == before


OPENS = """
import os
import urllib3

def asked(said):
    body = {"model": "gpt", "messages": [{"role": "user", "content": said}]}
    return urllib3.request("POST", URL + "/chat/completions", json=body).json()["choices"][0]["message"]["content"]

"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_process", "hides"),
    [(False, True), (True, False), *(pytest.param(both, both, marks=pytest.mark.weekly) for both in (False, True))],
)
def test_one_that_cannot_be_opened_in_a_replay_does_not_refuse_the_others(
    in_process: bool, hides: bool, server: Running, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "KNOWN = asked(f\"What is known {os.environ.get('NOW', 'then')}?\")\n"
    if hides:
        begin = f"try:\n    {begin}except BaseException:\n    KNOWN = 'nothing'\n"
    for name, lines in (("opens", begin), ("plain", "KNOWN = ''\n")):
        source = OPENS + f"URL = {server.url!r}\n".join(("\n", lines))
        source += (
            "def ask(question):\n    assert KNOWN != 'nothing'\n    return asked(KNOWN + question)\n"
            "def again(question):\n    return ask(question)\n"
        )
        (tmp_path / f"{name}_{in_process}_{hides}.py".lower()).write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOW", "first")
    opens, plain = (f"./{name}_{in_process}_{hides}.py".lower() for name in ("opens", "plain"))
    agents = [f"{opens}:ask", f"{plain}:ask", f"{opens}:again"]
    how = {"limit": 2, "home": home, "progress": False, "in_process": in_process}
    assert not rr.run("sample", agents, **how).failures  # type: ignore[arg-type]
    before = server.account().calls
    monkeypatch.setenv("NOW", "later")
    edited = tmp_path / opens
    edited.write_text(f"# opened anew\n{edited.read_text()}")
    again = rr.run("sample", agents, journal="replay", new=True, **how)  # type: ignore[arg-type]
    assert [run.agent.partition("[")[0] for run in again.runs] == [agents[1]]
    assert [count for _, count in again.failures] == [2, 2]
    assert all("cannot be replayed: Replay: this call is not in the journal" in why for why, _ in again.failures)
    with pytest.raises(StopRun, match="not in the journal"):
        rr.run("sample", agents[0], journal="replay", new=True, **how)  # type: ignore[arg-type]
    assert server.account().calls == before
    assert not rr.run("sample", agents[0], new=True, **how).failures  # type: ignore[arg-type]
