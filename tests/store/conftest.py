from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store in a file, and one on a server."""
    url = request.getfixturevalue("url") if request.param == "postgresql" else None
    with Store(tmp_path / "store", url) as opened:
        yield opened
