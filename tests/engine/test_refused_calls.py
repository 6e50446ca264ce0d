"""A call that a provider's content filter refuses blocks the attempt of a user's system, as it blocks a built-in
agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from tests.servers.any_form import AnyForm

# It raises an error of its own, as clients do; or it goes on, and has no text or another one; or its process ends.
AGENT = """
import os

import urllib3

def ask(question: str):
    body = {{"model": "m", "messages": [{{"role": "user", "content": question}}]}}
    answer = urllib3.request("POST", {url!r} + "/chat/completions", json=body, retries=False)
    if answer.status != 200 and {fallback!r} is None:
        raise RuntimeError("no answer in 5 s")
    if {fallback!r} == "exit":
        os._exit(1)
    return {fallback!r} or ""
"""
FILTER = {"code": "content_filter", "message": "the prompt was filtered"}


@pytest.mark.parametrize(
    ("error", "fallback", "outcome"),
    [
        (FILTER, None, {"blocked": 1}),
        pytest.param(FILTER, "", {"blocked": 1}, marks=pytest.mark.slow),
        pytest.param(FILTER, "The answer is B.", {"completed": 1}, marks=pytest.mark.slow),
        pytest.param(FILTER, "exit", {"failed": 1}, marks=pytest.mark.slow),
        pytest.param({"code": "bad", "message": "no such field: 5"}, None, {"failed": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_refused_call_blocks_an_attempt_without_an_answer(
    served: AnyForm,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: dict[str, object],
    fallback: str | None,
    outcome: dict[str, int],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(AGENT.format(url=served.url, fallback=fallback))
    served.fails, served.error = [400], error
    result = rr.run("sample", "./mine.py:ask", limit=1, progress=False, home=home)
    (row,) = result.comparison.rows
    assert {status: count for status, count in row.statuses.items() if count} == outcome
    assert (result.failures == ()) == ("failed" not in outcome)
    for reason, _ in result.failures:
        own = "HostEnded: " if fallback else "RuntimeError: no answer in 5 s (a call had failed: 400: no such field: 5)"
        assert reason.startswith(own)
