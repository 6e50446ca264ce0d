"""Tiny models and their world, made once a session."""

import pytest

from tests.extensions.training.tiny import model, needs_torch, write_file, write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Texts, pairs and a benchmark."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def teacher(tmp_path_factory):
    """A model of three layers and 16 dimensions."""
    needs_torch()
    return model(tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """One of 24 dimensions."""
    needs_torch()
    return model(tmp_path_factory.mktemp("wide"), dimensions=24, seed=1)


@pytest.fixture
def opened(tmp_path, world, teacher):
    """Open a run of the test file with some changes."""
    from ragrounds.extensions.training.pipeline import TrainingRun
    from ragrounds.extensions.training.spec import read_training

    def open_run(*changes, out="out", query=None, document=None, told=None, **parts):
        file = write_file(tmp_path, world, query or teacher, document or teacher, **parts)
        return TrainingRun(read_training(file, changes), tmp_path / out, tmp_path / "home", told)

    return open_run
