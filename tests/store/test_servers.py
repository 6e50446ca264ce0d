"""What servers told, and which models replies name, as both kinds of store keep it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Attempt, Call, Called, Gold, Question, Run
from ragrounds.evals.store.servers import keep_server, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.run_facts import reply_models, said_of_models
from ragrounds.extensions.exchange.transfer import copy_runs


def test_servers_are_kept_by_place_and_fingerprint_the_last_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(1, 9))
    monkeypatch.setattr("ragrounds.evals.store.servers.now", lambda: float(next(times)))
    keep_server(store.engine, "openai:m[server=lab]", "", {"root": "/a"})
    keep_server(store.engine, "openai:m[server=lab]", "fff", {"root": "/b"})
    keep_server(store.engine, "openai:m[server=other]", "", {"root": "/c"})
    known = known_servers(store.engine, "openai:m[server=lab]")
    assert [(one.fingerprint, one.facts, one.first, one.last) for one in known] == [
        ("fff", {"root": "/b"}, 2.0, 2.0),
        ("", {"root": "/a"}, 1.0, 1.0),
    ]
    keep_server(store.engine, "openai:m[server=lab]", "", {"root": "/a", "version": "2"})
    (back, _) = known_servers(store.engine, "openai:m[server=lab]")
    assert (back.fingerprint, back.facts, back.first, back.last) == ("", {"root": "/a", "version": "2"}, 1.0, 4.0)
    assert known_servers(store.engine, "openai:m[server=nobody]") == []


def made(name: str, servers: dict[str, dict[str, str]]) -> Run:
    return Run(
        id=name,
        agent=name,
        benchmark="b",
        questions="set",
        count=4,
        epochs=1,
        fingerprint=name,
        identity={},
        created=1.0,
        servers=servers,
    )


def attempt(run: Run, question: int, *models: str) -> Attempt:
    calls = [
        Call(key="", kind="model", role="answering", node="n", actor="openai:m[server=s]", model=one, at=0, seconds=0)
        for one in models
    ]
    events = tuple(Called(step=0, call=call) for call in calls)
    return Attempt(
        run=run.id,
        question_id=f"q{question}",
        epoch=0,
        status="completed",
        text="",
        model_calls=len(calls),
        events=events,
    )


def test_the_models_of_replies_are_counted_by_run(store: Store) -> None:
    questions = [Question(id=f"q{number}", benchmark="b", text="?") for number in range(4)]
    golds = {one.id: Gold(question_id=one.id, answer="A") for one in questions}
    one, two = made("one", {}), made("two", {"openai:m[server=s]": {"root": "/w"}})
    for run in (one, two):
        store.add_run(run, questions, golds)
    store.add_attempts(one, [attempt(one, 0, "m", "m"), attempt(one, 1, "m", "m"), attempt(one, 2, "", "x\0")])
    store.add_attempts(two, [attempt(two, 0, "/w"), attempt(two, 1, ""), attempt(two, 2)])
    found = reply_models(store, [one, two])
    assert found == {"one": {"openai:m[server=s]": {"m": 4, "x\0": 1}}, "two": {"openai:m[server=s]": {"/w": 1}}}
    assert said_of_models(store, one, found["one"]) == ["answered by x\0 in 1 of 5 calls, asked m"]
    assert said_of_models(store, two, found["two"]) == []  # the server lists it
    older = replace(two, servers={})
    assert said_of_models(store, older, found["two"]) == ["answered by /w in 1 of 1 calls, asked m"]
    keep_server(store.engine, "openai:m[server=s]", "", {"root": "/w"})
    assert said_of_models(store, older, found["two"]) == []
    store.add_attempts(one, [attempt(one, 2, "m")])  # made again
    assert reply_models(store, [one]) == {"one": {"openai:m[server=s]": {"m": 5}}}


def test_a_copied_run_brings_its_servers_unless_another_is_known_there(store: Store, tmp_path: Path) -> None:
    questions = [Question(id=f"q{number}", benchmark="b", text="?") for number in range(4)]
    golds = {one.id: Gold(question_id=one.id, answer="A") for one in questions}
    server = "openai:m[server=lab]"
    run = made("one", {server: {"root": "/a"}})
    run = replace(run, identity={"models": {"model": "openai:m[fingerprint=fff,server=lab,temperature=0]"}})
    store.add_run(run, questions, golds)
    with Store(tmp_path / "other") as other:
        copy_runs(store.engine, other.engine, [run], FINAL)
        (known,) = known_servers(other.engine, server)
        assert (known.fingerprint, known.facts) == ("fff", {"root": "/a"})
        assert copy_runs(store.engine, other.engine, [run], FINAL).present == ("one",)
    with Store(tmp_path / "third") as third:
        keep_server(third.engine, server, "", {"root": "/b"})
        keep_server(third.engine, server, "fff", {"root": "/c"})
        with pytest.raises(UserError, match="it reported root /a, the known one root /c"):
            copy_runs(store.engine, third.engine, [run], FINAL)
        assert third.runs() == []
