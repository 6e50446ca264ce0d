"""Names of agents in columns of few cells."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.trace.attempt_list import agent_cell


class NamedRun(Struct, frozen=True):
    id: str
    agent: str
    identity: Mapping[str, object] = {}


def named(*agents: str) -> list[NamedRun]:
    return [NamedRun(f"run-{place}f{place}", agent) for place, agent in enumerate(agents, 1)]


def test_a_run_has_its_name_of_tables() -> None:
    runs = named("vanilla_rag[top_k=8]", "direct", "direct")
    models = [{"models": {"model": name}} for name in ("a:m", "a:m", "a:n")]
    runs = [replace(run, identity=identity) for run, identity in zip(runs, models, strict=True)]
    names = names_of_runs(runs)  # type: ignore[arg-type]
    assert list(names.values()) == ["vanilla_rag[top_k=8]", "direct (a:m)", "direct (a:n)"]


@pytest.mark.parametrize(
    ("agents", "size", "cells"),
    [
        (("direct[model=x]", "vanilla_rag[top_k=8]"), 8, ["direct[…", "vanilla…"]),
        (("vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"), 20, ["vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"]),
        (("vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"), 5, ["…k=1]", "…k=8]"]),
        (("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"), 8, ["direct  ", "…op_k=1]", "…op_k=8]"]),
        (("vanilla_rag", "vanilla_rag[top_k=8]"), 8, ["…lla_rag", "…op_k=8]"]),
        (("one[a=1, same=yes]", "one[a=2, same=yes]"), 5, ["#1   ", "#2   "]),
        (("direct", "one[a=1, same=yes]", "one[a=2, same=yes]"), 5, ["dire…", "#2   ", "#3   "]),
        (("direct", "direct"), 6, ["…-1f1)", "…-2f2)"]),
    ],
)
def test_what_tells_agents_apart_stays(agents: tuple[str, ...], size: int, cells: list[str]) -> None:
    runs = named(*agents)
    names = names_of_runs(runs)  # type: ignore[arg-type]
    assert [agent_cell(names, run.id, size) for run in runs] == cells
