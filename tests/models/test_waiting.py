"""The time that a call waited is apart from the time that its server worked, where the server reports that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.models.openai_protocol import read_reply
from tests.servers.http_script import Asked, Told, answering

REPLY = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "The answer is A."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3},
}
TIMINGS = {"prompt_n": 9, "prompt_ms": 0.5, "predicted_n": 3, "predicted_ms": 0.25}


@pytest.mark.parametrize(
    ("timings", "worked"),
    [
        (TIMINGS, 0.0008),
        ({"prompt_ms": 0.5}, None),
        ({"prompt_ms": 0.5, "predicted_ms": -1}, None),
        ({"prompt_ms": "x", "predicted_ms": 1}, None),
        ({"prompt_ms": 10**400, "predicted_ms": 1}, None),
        ("soon", None),
        (None, None),
    ],
)
def test_only_both_parts_of_the_servers_time_are_its_work(timings: Any, worked: float | None) -> None:
    body = json.dumps({**REPLY, "timings": timings}).encode()
    assert read_reply(body, "application/json").worked == worked
    chunk = {"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}], "timings": timings}
    stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    assert read_reply(stream, "text/event-stream").worked == worked


@pytest.mark.parametrize("reports", [True, False])
def test_waiting_is_a_column_where_the_server_reports_when_it_worked(tmp_path: Path, reports: bool) -> None:
    def answer(asked: Asked, before: int) -> Told:
        return Told({**REPLY, **({"timings": TIMINGS} if reports else {})} if asked.body else {})

    with answering(answer) as script:
        result = rr.run(model="openai:m", base_url=f"{script.url}/v1", agents="direct", limit=2, home=tmp_path,
                        progress=False)  # fmt: skip
    calls = result.to_pandas("calls")
    attempts = result.to_pandas("attempts")
    full = rr.compare(result, home=tmp_path).full()
    if reports:
        assert attempts["waited"].tolist() == pytest.approx((calls["seconds"] - 0.0008).tolist())
        [row] = result.comparison.rows
        assert row.waited == pytest.approx(attempts["waited"].mean())
    else:
        assert attempts["waited"].isna().all()
    assert calls["worked"].notna().all() == reports
    assert ("waiting" in full) == reports
