"""A wait that a server asks for is named if it is too long, and every passing status is tried again."""

import asyncio

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.providers import open_model
from ragrounds.models.retries import RetryPolicy, with_retries
from tests.servers.http_script import Told, answering


def test_a_wait_that_is_too_long_is_named():
    async def busy():
        raise Transient("server", "slow", 529, 900.0)

    with pytest.raises(CallFailed) as failed:
        asyncio.run(with_retries(busy, RetryPolicy(seconds=300.0), []))
    assert failed.value.message == (
        "slow (gave up after 1 try: the server asked to wait 900 s, and a call may take 300 s (patience=…))"
    )


def test_a_wait_within_the_limit_is_not_named():
    async def busy():
        raise Transient("server", "slow", 503, 0.0)

    with pytest.raises(CallFailed, match=r"^slow \(gave up after 2 tries\)$"):
        asyncio.run(with_retries(busy, RetryPolicy(tries=2), []))


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 529])
def test_a_passing_status_is_tried_again(status):
    reply = {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}

    async def ask(url):
        model = open_model(f'openai:m[base_url="{url}"]')
        try:
            return await model.complete(Request(messages=(Message("user", "?"),)), faults)
        finally:
            await model.close()

    faults = []
    with answering(lambda request, before: Told(reply) if before else Told({}, status, {"Retry-After": "0"})) as server:
        assert asyncio.run(ask(server.url)).text == "yes"
    assert [fault.status for fault in faults] == [status]
