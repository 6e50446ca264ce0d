"""The OpenAI-compatible model against a real loopback server: each fault ends in its right outcome."""

from __future__ import annotations

import time

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Fault, Message, Reply, Usage
from ragrounds.base.request_pace import SLEEPING
from ragrounds.models.faults import CallFailed
from ragrounds.models.openai_protocol import read_reply
from ragrounds.models.providers import open_model
from ragrounds.models.started_server import free_port
from tests.servers.http_script import Asked, Told, answering
from tests.servers.process import Running

KEY = "sk-test-0123456789abcdefghijkl"


async def ask(server: Running, model: str, faults: list[Fault] | None = None, **options: object) -> Reply:
    settings = {"timeout": 5, "tries": 3, "patience": 20, **options}
    inside = ",".join(f"{key}={value}" for key, value in settings.items())
    opened = open_model(f'openai:{model}[base_url="{server.url}",{inside}]')
    # The time makes each prompt its own: the server counts tries by prompt.
    request = Request(messages=(Message("user", f"question {time.time_ns()}"),))
    try:
        return await opened.complete(request, [] if faults is None else faults)
    finally:
        await opened.close()


def count_waits() -> list[float]:
    """Let this test's calls wait no time between tries; returns the seconds that each would have waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    SLEEPING.set(wait)
    return waits


async def test_a_reply_has_text_usage_and_model(server: Running) -> None:
    reply = await ask(server, "plain")
    assert "answer_choice" in reply.text
    assert reply.usage is not None
    assert reply.usage.output > 0
    assert (reply.finish, reply.model) == ("stop", "plain")


@pytest.mark.parametrize("fault", ["429", "429-retry-after", "500", "503", "malformed", "array", "html", "cut", "drop"])
async def test_a_passing_fault_is_tried_again(server: Running, fault: str) -> None:
    waits = count_waits()
    faults: list[Fault] = []
    reply = await ask(server, f"fault-{fault}", faults)
    assert "After a fault" in reply.text
    assert len(faults) == len(waits) == 1


async def test_failed_tries_that_the_server_counted_are_paid() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    choices: list[object] = [{"message": None}, {"message": {"content": "B"}}]

    def answer(asked: Asked, before: int) -> Told:
        return Told({"choices": [choices[before % len(choices)]], "usage": usage})

    with answering(answer) as script:
        opened = open_model(f'openai:m[base_url="{script.url}",tries=2]')
        request = Request(messages=(Message("user", "question"),))
        count_waits()
        try:
            reply = await opened.complete(request, [])
            assert (reply.text, reply.usage) == ("B", Usage(200, 40))
            assert reply.notes == ("the usage includes failed tries whose tokens the server counted: 1",)
            choices[:] = choices[:1]
            faults: list[Fault] = []
            with pytest.raises(CallFailed, match="without a message") as failed:
                await opened.complete(request, faults)
        finally:
            await opened.close()
    assert (failed.value.kind, failed.value.usage) == ("malformed", Usage(200, 40))
    assert not any(fault.unanswered for fault in faults)
    assert {(fault.kind, fault.usage) for fault in faults} == {("malformed", Usage(100, 20))}


async def test_retry_after_is_obeyed(server: Running) -> None:
    faults: list[Fault] = []
    start = time.monotonic()
    await ask(server, "fault-429-retry-after", faults)
    assert time.monotonic() - start >= 1.0
    assert faults[0].kind == "rate_limit"
    assert faults[0].waited >= 1.0


async def test_a_retry_after_beyond_the_patience_ends_the_call_at_once(server: Running) -> None:
    start = time.monotonic()
    with pytest.raises(CallFailed, match="come back tomorrow"):
        await ask(server, "fault-429-long-always")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("500", "server"),
        ("429", "rate_limit"),
        ("malformed", "malformed"),
        ("html", "malformed"),
        ("cut", "connection"),
    ],
)
async def test_a_lasting_fault_fails_the_call(server: Running, fault: str, kind: str) -> None:
    waits = count_waits()
    faults: list[Fault] = []
    with pytest.raises(CallFailed) as failed:
        await ask(server, f"fault-{fault}-always", faults)
    assert failed.value.kind == kind
    assert len(faults) == 3
    assert "3 tries" in failed.value.message
    assert waits == pytest.approx([fault.waited for fault in faults[:2]], abs=1e-3)
    assert waits[0] < waits[1]


@pytest.mark.parametrize("fault", ["hang", "trickle"])
async def test_a_server_that_never_finishes_is_a_timeout(server: Running, fault: str) -> None:
    with pytest.raises(CallFailed) as failed:
        await ask(server, f"fault-{fault}-always", timeout=0.5, tries=2)
    assert failed.value.kind == "timeout"


@pytest.mark.parametrize(
    ("fault", "said"), [("401", "refused the key"), ("404", "does not know"), ("429-quota", "credit")]
)
async def test_what_no_try_can_mend_stops_the_run(
    server: Running, fault: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    faults: list[Fault] = []
    with pytest.raises(StopRun, match=said) as stopped:
        await ask(server, f"fault-{fault}-always", faults)
    assert ".." not in str(stopped.value)
    assert faults == []


async def test_a_key_that_is_not_set_is_said_so(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(StopRun, match=r"needs a key \(401\): .*[^.]\. OPENAI_API_KEY is not set\.$"):
        await ask(server, "fault-401-always")


async def test_a_key_that_the_server_repeats_is_not_shown(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(StopRun) as stopped:
        await ask(server, "fault-401-always")
    assert KEY not in str(stopped.value)
    assert f"Bearer {KEY}" in server.stats()["keys_seen"]


@pytest.mark.parametrize(("fault", "kind"), [("400", "bad_request"), ("context", "context_too_long")])
async def test_a_wrong_request_is_not_tried_again(server: Running, fault: str, kind: str) -> None:
    faults: list[Fault] = []
    with pytest.raises(CallFailed) as failed:
        await ask(server, f"fault-{fault}-always", faults)
    assert failed.value.kind == kind
    assert faults == []


@pytest.mark.parametrize("fault", ["filter", "filter-finish"])
async def test_a_content_filter_is_a_final_reply(server: Running, fault: str) -> None:
    reply = await ask(server, f"fault-{fault}-always")
    assert reply.finish == "content_filter"


async def test_a_response_without_choices_is_final(server: Running) -> None:
    faults: list[Fault] = []
    reply = await ask(server, "fault-empty-always", faults)
    assert (reply.text, reply.finish, faults) == ("", "none", [])


def test_a_lone_surrogate_in_a_reply_is_replaced() -> None:
    body = b'{"choices": [{"message": {"content": "x\\ud800y \\ud83d\\ude00"}}]}'
    assert read_reply(body, "application/json").text == "x\ufffdy \U0001f600"


async def test_null_content_is_an_empty_text_and_missing_usage_is_unknown(server: Running) -> None:
    assert (await ask(server, "fault-null-content-always")).text == ""
    assert (await ask(server, "fault-no-usage-always")).usage is None


async def test_a_closed_port_stops_with_the_address() -> None:
    port = free_port()
    opened = open_model(f'openai:m[base_url="http://127.0.0.1:{port}/v1"]')
    with pytest.raises(StopRun, match=f"cannot connect to http://127.0.0.1:{port}"):
        await opened.complete(Request(messages=(Message("user", "q"),)), [])
    await opened.close()


def test_a_login_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError, match="given with a login") as refused:
        open_model('openai:m[base_url="http://user:secret-word@127.0.0.1:8000/v1"]')
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "localhost", "ftp://localhost/v1", "http:///v1"])
def test_an_address_without_its_scheme_or_host_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="expected http://HOST:PORT"):
        open_model(f'openai:m[base_url="{address}"]')
    with pytest.raises(UserError) as refused:
        open_model('openai:m[base_url="user:secret-word@127.0.0.1:8000/v1?key=secret-word#secret-word"]')
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize("query", ["api_key=secret-word", "key=secret-word", "Ocp-Apim-Subscription-Key=secret-word",
                                   "sv=1&sig=secret-word", "access_token=secret-word", f"x={KEY}"])  # fmt: skip
def test_a_key_in_an_address_is_refused_and_not_repeated(query: str) -> None:
    with pytest.raises(UserError, match="given with a key") as refused:
        open_model(f'openai:m[base_url="http://127.0.0.1:8000/v1?{query}"]')
    assert "secret-word" not in str(refused.value)
    assert KEY not in str(refused.value)


def test_a_price_is_known_unknown_or_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    reply = Reply(text="", usage=Usage(1000, 100, 200, 50))
    listed = open_model("openai:gpt-4o-mini").price(reply)
    assert listed is not None
    assert 0 < listed < 0.01
    assert open_model("openai:no-such-model").price(reply) is None
    assert open_model('openai:gpt-4o-mini[base_url="http://127.0.0.1:1/v1"]').price(reply) is None
    own = 'openai:x[base_url="http://127.0.0.1:1/v1",price_input=1,price_output=2]'
    assert open_model(own).price(reply) == pytest.approx(1000e-6 + 200e-6)
    assert open_model("openai:gpt-4o-mini").price(Reply(text="")) is None


def test_the_identity_holds_what_changes_a_reply_and_nothing_else() -> None:
    url = 'base_url="http://127.0.0.1:1/v1"'
    plain = open_model(f"openai:x[{url},temperature=0]").spec
    same = "temperature=0.0,timeout=5,tries=9,stream=true,price_gpu_hour=1,gpus=2"
    assert open_model(f"openai:x[{url},{same}]").spec == plain
    assert open_model(f"openai:x[{url},temperature=1]").spec != plain
    assert open_model('openai:x[base_url="http://127.0.0.1:2/v1",temperature=0]').spec != plain
    moved = [open_model(f'openai:x[base_url="http://127.0.0.1:{port}/v1",alias=lab]').spec for port in (1, 2)]
    assert moved[0] == moved[1]


def test_no_key_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        open_model("openai:gpt-4o-mini")


async def test_an_alias_without_an_address_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    opened = open_model("openai:m[alias=lab]")
    with pytest.raises(StopRun, match="alias=lab is the name of your own server, and its address is missing"):
        await opened.complete(Request(messages=(Message("user", "?"),)), [])
    await opened.close()
