"""What makes a run another run: everything its results depend on is in its fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import load, select
from ragrounds.evals.engine.plan import PlannedRun, Recipe, plan
from ragrounds.evals.store.store import Store
from ragrounds.models.providers import BASELINE
from ragrounds.prompts import loader


def planned_run(store: Store, home: Path, agent: str, **options: Any) -> PlannedRun:
    """The one run of an agent on two questions of the sample, planned as by a process of its own."""
    loader._text.cache_clear()  # a process reads each prompt once, so that a run's prompts stay what they were
    recipe = Recipe(agents=(agent,), model=BASELINE, corpus="sample")
    return plan(store, select(load("sample", home), limit=2), recipe, home=home, **options)[0]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A user's folder with one prompt of his own."""
    folder = tmp_path / "prompts"
    (folder / "choice").mkdir(parents=True)
    (folder / "choice" / "direct.md").write_text("[user]\n$question\n$options\nThe letter alone.\n")
    return folder


def test_an_edited_prompt_makes_another_run(store: Store, tmp_path: Path, prompts: Path) -> None:
    agent = f'direct[prompts="{prompts}"]'
    first = planned_run(store, tmp_path, agent).run
    assert planned_run(store, tmp_path, agent).run.id == first.id
    (prompts / "choice" / "direct.md").write_text("[user]\n$question\n$options\nThe letter alone!\n")
    second = planned_run(store, tmp_path, agent).run
    assert second.id != first.id
    assert second.identity["prompts"]["choice/direct"] != first.identity["prompts"]["choice/direct"]
    with pytest.raises(UserError, match="the prompt choice/direct changed"):
        planned_run(store, tmp_path, agent, only=first.id)
    (prompts / "long").mkdir()
    (prompts / "long" / "unused.md").write_text("[user]\nNo graph asks for this one.\n")
    assert planned_run(store, tmp_path, agent).run.id == second.id


def test_an_edited_prompt_of_an_agent_inside_makes_another_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = "query_generation[query_generation=answer[agent=search_o1]]"
    first = planned_run(store, tmp_path, agent).run
    real = Path.read_text

    def edited(path: Path, *options: Any, **more: Any) -> str:
        return real(path, *options, **more) + ("!" if path.match("search_o1/reason.md") else "")

    monkeypatch.setattr(Path, "read_text", edited)
    second = planned_run(store, tmp_path, agent).run
    assert second.id != first.id
    assert [key for key in first.identity if first.identity[key] != second.identity[key]] == ["inner"]


def test_the_version_alone_decides_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragrounds.evals.engine import plan as planning

    first = planned_run(store, tmp_path, "vanilla_rag[top_k=1]").run
    monkeypatch.setattr(planning, "__version__", "99.0")
    assert planned_run(store, tmp_path, "vanilla_rag[top_k=1]").run.id == first.id
    other = planned_run(store, tmp_path, "vanilla_rag[top_k=1]", new=True).run
    assert (other.version, first.version != "99.0", other.fingerprint) == ("99.0", True, first.fingerprint)
