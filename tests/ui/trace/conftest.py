"""A store for the viewer's tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from tests.ui.trace.making import quiz_store


@pytest.fixture(scope="session")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that nobody writes to."""
    folder = tmp_path_factory.mktemp("quiz")
    quiz_store(folder).close()
    return folder


@pytest.fixture
def store(quiz: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copytree(quiz, tmp_path / "store")
    with Store(tmp_path / "store") as made:
        yield made


@pytest.fixture
def pages(store: Store) -> Pages:
    return Pages(store, store.runs())
