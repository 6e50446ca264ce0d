"""A store for the viewer's tests."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual._compositor import Compositor

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from tests.ui.trace.making import quiz_store


@pytest.fixture
def only_what_a_test_looks_at_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal Textual renders each change too, and forgets it: half of the time that a key takes.

    :func:`tests.ui.trace.seeing.screen` renders what a test looks at. Views that read what they render cannot use it.
    """
    monkeypatch.setattr(Compositor, "render_update", lambda self, **_: self._dirty_regions.clear())


@pytest.fixture(scope="session")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that nobody writes to."""
    folder = tmp_path_factory.mktemp("quiz")
    quiz_store(folder).close()
    return folder


@pytest.fixture(scope="session")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str], str]]:
    """The folder of the scavenger hunt's store, to which nobody writes, and what was planted in it."""
    file = Path(__file__).parents[3] / "docs" / "scripts" / "hunt.py"  # a script, and no module of the package
    spec = importlib.util.spec_from_file_location("hunt", file)
    assert spec is not None
    assert spec.loader is not None
    hunt = sys.modules["hunt"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hunt)
    folder = tmp_path_factory.mktemp("hunt")
    return folder, asyncio.run(hunt.make(folder))


@pytest.fixture
def hunt_pages(hunted: tuple[Path, dict[tuple[str, str], str]]) -> Iterator[Pages]:
    with Store(hunted[0]) as made:
        yield Pages(made, made.runs(), ("equivalent", "strict"))


@pytest.fixture
def store(quiz: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copytree(quiz, tmp_path / "store")
    with Store(tmp_path / "store") as made:
        yield made


@pytest.fixture
def pages(store: Store) -> Pages:
    return Pages(store, store.runs())
