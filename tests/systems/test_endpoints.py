"""An address as an agent: what is sent, what is read, and that it is journaled, capped, priced and retried."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.agents.systems.endpoint_card import filled
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Called, Usage
from ragrounds.evals.store.store import Store
from ragrounds.recorder.answers import at_path
from tests.graphs.playing import CHOICE, play
from tests.servers.http_script import Asked, HttpScript, Told, answering

JSON = """
summary = "A service of ours."

[parameters]
depth = 3

[endpoint]
form = "json"
url = "{url}/ask/"
answer = "result.text"
choice = "result.letter"
passages = {{ list = "result.sources", text = "snippet", title = "name" }}
usage = {{ input = "usage.in", output = "usage.out" }}
price = {{ input = 1.0, output = 10.0 }}
tries = 2
{more}

[endpoint.request]
query = "{{question}}"
lines = "{{options}}"
map = "{{choices}}"
depth = "{{depth}}"
in = ["{{id}}: x"]
"""
OPENAI = """
summary = "An agent behind OpenAI's protocol."

[endpoint]
form = "openai"
url = "{url}/v1"
model = "our-agent"
{more}
"""
REPLY = {
    "result": {
        "text": "I would say warfarin.",
        "letter": "a",
        "sources": [{"snippet": "Warfarin first.", "name": "Handbook"}, {"snippet": "Then heparin.", "id": "h2"}],
    },
    "usage": {"in": 2000, "out": 100},
}
CHAT = {
    "model": "gpt-inner",
    "choices": [{"message": {"role": "assistant", "content": "The answer is (B)."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    "citations": ["First passage.", "Second passage."],
}


def agent(folder: Path, card: str, server: HttpScript | str, more: str = "", name: str = "ours") -> str:
    url = server if isinstance(server, str) else server.url
    file = folder / f"{name}.toml"
    file.write_text(card.format(url=url, more=more))
    return str(file)


def always(body: object, **more: object) -> object:
    return lambda asked, before: Told(body, **more)


async def test_a_json_endpoint_is_asked_by_its_field_map_and_read_by_it(tmp_path):
    with answering(always(REPLY)) as server:
        played = await play(agent(tmp_path, JSON, server), [])
    assert [asked.path for asked in server.asked] == ["/ask/"], "the address as it was given"
    assert server.asked[0].body == {
        "query": CHOICE.text,
        "lines": "A. Warfarin zqa\nB. Heparin zqb\nC. Aspirin zqc",
        "map": CHOICE.options,
        "depth": 3,
        "in": ["q/1: x"],
    }
    attempt = played.attempt
    assert (attempt.status, attempt.text, attempt.choice) == ("completed", "I would say warfarin.", "A")
    assert attempt.usage == Usage(2000, 100)
    assert attempt.cost_paid == pytest.approx(0.003)
    (call,) = [event.call for event in attempt.events if isinstance(event, Called) and event.call.kind == "model"]
    assert call.actor.startswith("json:")
    assert server.url in call.actor


async def test_an_openai_agent_is_asked_as_chat_completions(tmp_path):
    more = 'request = { temperature = 0.5, user = "{id}" }\npassages = { list = "citations" }'
    with answering(always(CHAT)) as server:
        played = await play(agent(tmp_path, OPENAI, server, more), [])
    assert server.asked[0].path == "/v1/chat/completions"
    body = server.asked[0].body
    assert (body["model"], body["temperature"], body["user"]) == ("our-agent", 0.5, "q/1")
    assert body["messages"] == [
        {"role": "user", "content": f"{CHOICE.text}\n\nA. Warfarin zqa\nB. Heparin zqb\nC. Aspirin zqc"}
    ]
    assert played.attempt.text == "The answer is (B)."
    assert (played.attempt.usage, played.attempt.cost_paid) == (Usage(10, 5), None), "no known price is unknown"


async def test_a_streamed_agent_is_read_to_its_end(tmp_path):
    pieces = [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in ("The answer", " is (C).")]
    pieces += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    pieces += [{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]
    stream = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    events = Told(stream.encode(), headers={"Content-Type": "text/event-stream"})
    with answering(lambda asked, before: events) as server:
        played = await play(agent(tmp_path, OPENAI, server, "stream = true"), [])
    assert server.asked[0].body["stream"] is True
    assert (played.attempt.text, played.attempt.usage) == ("The answer is (C).", Usage(7, 3))


async def test_another_field_map_reads_what_was_paid_for_and_asks_nobody(tmp_path):
    with answering(always({**REPLY, "other": "Heparin, surely."})) as server:
        first = agent(tmp_path, JSON, server, name="first")
        second = agent(tmp_path, JSON.replace('"result.text"', '"/other"'), server, name="second")
        played = await play([first, second], [])
    assert len(server.asked) == 1
    assert (played.made, played.reused) == (1, 1)
    assert played.attempt.text == "Heparin, surely."
    codes = {kind_of(open_agent(file).card).code() for file in (first, second)}
    assert len(codes) == 2, "another map is another run"


async def test_what_is_not_where_the_map_says_fails_the_attempt_and_is_named(tmp_path):
    with answering(always({"reply": "B"})) as server:
        played = await play(agent(tmp_path, JSON, server), [])
    assert played.attempt.status == "failed"
    assert "nothing at 'result.text'" in played.attempt.reason
    assert "'reply'" in played.attempt.reason


async def test_a_fault_is_tried_again_after_the_time_that_the_server_asks_for(tmp_path):
    def script(asked: Asked, before: int) -> Told:
        return Told({"error": "busy"}, 429, {"Retry-After": "0.2"}) if before == 0 else Told(REPLY)

    with answering(script) as server:
        begun = time.perf_counter()
        played = await play(agent(tmp_path, JSON, server), [])
    assert time.perf_counter() - begun >= 0.2
    assert played.attempt.status == "completed"
    (call,) = [
        event.call for event in played.attempt.events if isinstance(event, Called) and event.call.kind == "model"
    ]
    assert [(fault.kind, fault.status) for fault in call.faults] == [("rate_limit", 429)]


async def test_a_fault_that_stays_fails_the_attempt(tmp_path):
    with answering(always({"error": "broken"}, status=500)) as server:
        played = await play(agent(tmp_path, JSON, server, "patience = 5"), [])
    assert len(server.asked) == 2
    assert played.attempt.status == "failed"
    assert "broken" in played.attempt.reason


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (Told({}, 302, {"Location": "http://203.0.113.5/steal"}), "redirects to http://203.0.113.5"),
        (Told({"error": "who are you."}, 401), r"refused the key \(401\): who are you\. Check"),
        (Told({"detail": "Not Found"}, 404), "no agent at this address"),
    ],
)
async def test_what_every_further_call_would_meet_stops_the_run(told, message, tmp_path):
    with answering(lambda asked, before: told) as server, pytest.raises(StopRun, match=message):
        await play(agent(tmp_path, JSON, server), [])
    assert len(server.asked) == 1


async def test_a_reply_that_is_too_large_is_not_read(tmp_path):
    with answering(always(b'"' + b"x" * (9 << 20) + b'"')) as server:
        played = await play(agent(tmp_path, JSON, server), [])
    assert played.attempt.status == "failed"
    assert "too_large" in played.attempt.reason


async def test_keys_come_from_the_environment_and_stand_nowhere(tmp_path, monkeypatch):
    secret = "s3cr3t-0123456789-abcdef"
    monkeypatch.setenv("OUR_AGENT_KEY", secret)
    monkeypatch.setenv("OUR_TENANT", "ward-7-tenant-0042")
    more = 'key = "OUR_AGENT_KEY"\nheaders = { "X-Tenant" = "OUR_TENANT" }'
    echo = {**REPLY, "result": {**REPLY["result"], "text": f"You sent {secret}."}}
    with answering(always(echo)) as server:
        played = await play(agent(tmp_path, JSON, server, more), [])
    assert server.asked[0].headers["authorization"] == f"Bearer {secret}"
    assert server.asked[0].headers["x-tenant"] == "ward-7-tenant-0042"
    assert played.attempt.text == "You sent [key]."
    assert secret not in msgspec.json.encode(played.attempt).decode()


async def test_a_key_that_is_not_set_is_named_before_anything_is_sent(tmp_path):
    with answering(always(REPLY)) as server, pytest.raises(StopRun, match="OUR_AGENT_KEY is not set"):
        await play(agent(tmp_path, JSON, server, 'key = "OUR_AGENT_KEY"'), [])
    assert not server.asked


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('key = "sk-live-0123456789abcdef"', "is not the name of an environment variable"),
        ("stream = true", "stream is for the form 'openai'"),
        ("concurrency = 0", "expected more than 0"),
        ('nonsense = "x"', "unknown field `nonsense`"),
    ],
)
def test_a_file_that_is_not_in_order_is_told(more, message, tmp_path):
    with pytest.raises(UserError, match=message) as told:
        open_agent(agent(tmp_path, JSON, "http://127.0.0.1:9", more))
    assert "0123456789" not in str(told.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"{question}"', '"{queston}"', "Did you mean 'question'"),
        ("http://127.0.0.1:9", "http://me:pass@127.0.0.1:9", "with a login"),
        ("http://127.0.0.1:9", "ftp://127.0.0.1:9", "expected http"),
        ('summary = "A service of ours."', 'summary = "x"\ngraph = "direct"', "give one"),
        ('summary = "A service of ours."', 'summary = "x"\noutput = "y"', "output of its file has no effect"),
    ],
)
def test_a_wrong_word_in_a_file_is_told(before, after, message, tmp_path):
    file = Path(agent(tmp_path, JSON, "http://127.0.0.1:9"))
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(UserError, match=message):
        open_agent(str(file))


def test_nothing_in_a_question_is_interpreted():
    values = {"question": "What of {options}, {{x}} and $HOME?", "options": "A. x"}
    assert filled("{question} {{kept}} {options}", values) == "What of {options}, {{x}} and $HOME? {kept} A. x"
    assert filled({"a": ["{options}", 3]}, values) == {"a": ["A. x", 3]}


def test_paths_reach_into_lists_and_odd_keys():
    value = {"a": [{"b": 1}, {"b": 2}], "x.y/z": {"~": 3}}
    assert [at_path(value, path) for path in ("a.0.b", "a.-1.b", "/x.y~1z/~0", "a.2.b", "a.b", "b")] == [
        1, 2, 3, None, None, None,
    ]  # fmt: skip
    assert at_path(value, ".") is value


async def test_a_cap_is_reached_before_the_call(tmp_path):
    with answering(always(REPLY)) as server:
        played = await play(agent(tmp_path, JSON, server) + "[limits.calls=0]", [])
    assert played.attempt.status == "capped"
    assert not server.asked


@pytest.mark.slow
def test_calls_at_once_are_bounded(tmp_path, command):
    flying, most = [0], [0]

    def script(asked: Asked, before: int) -> Told:
        flying[0] += 1
        most[0] = max(most[0], flying[0])
        time.sleep(0.05)
        flying[0] -= 1
        return Told(CHAT)

    with answering(script) as server:
        file = agent(tmp_path, OPENAI, server, "concurrency = 2")
        done = command("run", "--agent", file, "--limit", "8", "--display", "none")
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == 8
    assert most[0] == 2
    assert "Unclosed" not in done.stderr


@pytest.mark.slow
def test_killed_and_resumed_asks_nobody_again_and_a_replay_asks_nobody_at_all(tmp_path, home, command):
    resumed: list[bool] = []

    def script(asked: Asked, before: int) -> Told:
        if before >= 3 and not resumed:
            time.sleep(30)
        return Told(CHAT)

    with answering(script) as server:
        options = ["run", "--agent", agent(tmp_path, OPENAI, server), "--limit", "6", "--display", "none"]
        at_once = [sys.executable, "-m", "ragrounds", *options, "--concurrency", "1"]
        process = subprocess.Popen(at_once, stderr=subprocess.PIPE)
        while len(server.asked) < 4:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        resumed.append(True)
        done = command(*options)
        assert done.returncode == 0, done.stderr
        bodies = [msgspec.json.encode(asked.body) for asked in server.asked]
    assert (len(bodies), len(set(bodies))) == (7, 6), "only what was in flight is asked again"
    done = command(*options, "--new", "--journal", "replay")
    assert done.returncode == 0, done.stderr
    with Store(home) as store:
        first, second = store.runs()
        texts = [{one.question_id: one.text for one in store.attempts(run)} for run in (first, second)]
    assert len(texts[0]) == 6
    assert texts[0] == texts[1]
    missed = command(*[part if part != "6" else "7" for part in options], "--journal", "replay")
    assert missed.returncode != 0
    assert "openai:our-agent" in missed.stderr


@pytest.mark.parametrize(
    "options", [["--model", "openai:x"], ["--corpus", "sample"], ["--config", "a=1"], ["--temperature", "0.5"]]
)
def test_an_option_without_effect_on_an_endpoint_is_an_error(options, tmp_path, command):
    file = agent(tmp_path, OPENAI, "http://127.0.0.1:9")
    done = command("run", "--agent", file, "--limit", "1", "--display", "none", *options)
    assert done.returncode == 2
    assert "has no effect" in done.stderr


def test_a_parameter_of_the_file_is_set_and_another_word_is_refused(tmp_path, command):
    with answering(always(REPLY)) as server:
        file = agent(tmp_path, JSON, server)
        done = command("run", "--agent", f"{file}[depth=9]", "--limit", "1", "--display", "none")
        assert done.returncode == 0, done.stderr
        refused = command("run", "--agent", f"{file}[deep=9]", "--limit", "1", "--display", "none")
    assert server.asked[0].body["depth"] == 9
    assert refused.returncode == 2
    assert "depth" in refused.stderr


async def test_passages_stand_in_the_trace_as_a_search_also_when_it_is_answered_from_the_journal(tmp_path):
    with answering(always(REPLY)) as server:
        file = agent(tmp_path, JSON, server)
        once, twice = await play(file, []), await play([file, file], [])
    for played in (once, twice):
        (search,) = [one.call for one in played.attempt.events if isinstance(one, Called) and one.call.kind == "search"]
        assert len(search.passages) == 2
        assert search.passages[1] == "h2"
    assert len(server.asked) == 2
