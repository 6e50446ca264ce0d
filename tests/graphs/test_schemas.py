"""JSON objects are demanded by a schema where the server follows one, and never of a strategy that a paper's profile
covers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ragrounds.agents.profile import profile_names, read_profile
from ragrounds.base.contracts import Request
from tests.graphs.playing import ANSWER, Scripted, play

OBJECTS: dict[str, dict[str, Any]] = {
    "critique[rounds=1]": {"critique": "None.", "accept": True},
    "plan_search[rounds=1]": {"analysis": "So.", "queries": ["first drug"]},
    "best_of[samples=2]": {"best": 2},
    "cascade[when=confidence]": {"confidence": 100},
    "vanilla_rag[refine=notes]": {"notes": ["A note."] * 5},
}
PUBLISHED = ("crag", "sure", "medagents", "mdagents")


def script() -> Callable[[Request], str]:
    """Write the object that a schema demands, else answers that differ: equal ones are not judged."""
    letters = itertools.cycle("BC")

    def reply(request: Request) -> str:
        if request.response_format:
            return json.dumps(next(value for value in OBJECTS.values() if set(value) == set(schema_of(request))))
        return ANSWER.replace("B", next(letters))

    return reply


def schema_of(request: Request) -> Any:
    assert request.response_format is not None
    assert request.response_format["type"] == "json_schema"
    return request.response_format["json_schema"]["schema"]["properties"]  # type: ignore[index]


@pytest.mark.parametrize("agent", OBJECTS)
async def test_a_server_that_can_is_made_to_write_the_object(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "follows_schemas", True, raising=False)
    played = await play(agent, script())
    assert played.attempt.status == "completed", played.attempt.reason
    [demanded] = [request for request in played.model.requests if request.response_format]
    assert list(schema_of(demanded)) == list(OBJECTS[agent]), "keys are in the prompt's order"
    assert not {note for note in played.notes if note.startswith(("unreadable", "no_"))}


@pytest.mark.parametrize("agent", OBJECTS)
async def test_other_servers_are_asked_in_words_alone(agent: str) -> None:
    played = await play(agent, script())
    assert played.model.requests
    assert not [request for request in played.model.requests if request.response_format]


@pytest.mark.parametrize("agent", PUBLISHED)
async def test_a_strategy_of_a_profile_demands_nothing(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "follows_schemas", True, raising=False)
    played = await play(agent, script())
    assert not [request for request in played.model.requests if request.response_format]


def test_no_profile_covers_a_strategy_that_demands_schemas() -> None:
    covered = {graph for name in profile_names() for graph in read_profile(name).graphs}
    assert covered.isdisjoint({"critique", "plan_search", "best_of", "cascade"})
    assert covered.issuperset(PUBLISHED)
