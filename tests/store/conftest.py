from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgresql import binaries, postgresql


@pytest.fixture(scope="package")
def server_url() -> Iterator[str]:
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra 'postgresql'")
    with postgresql(programs) as running:
        yield running


@pytest.fixture
def url(server_url: str) -> str:
    """An empty database of its own on the tests' PostgreSQL server."""
    import psycopg

    _made.append(f"test_{len(_made)}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {_made[-1]}")  # type: ignore[arg-type]
    return server_url.rpartition("/")[0] + "/" + _made[-1]


_made: list[str] = []
