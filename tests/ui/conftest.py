import pytest

from ragrounds.evals.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened
