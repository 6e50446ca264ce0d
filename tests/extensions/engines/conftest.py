"""Real servers of search engines, one for the tests of a process, and a small corpus."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.extensions.engines.engine_servers import chroma, pgvector_programs
from tests.extensions.engines.hashed_words import TEXTS
from tests.servers.postgresql import restartable
from tests.tools.conftest import beir as beir


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory):
    """A Chroma server."""
    pytest.importorskip("chromadb", reason="chromadb is not installed: the extra `chroma`")
    with chroma(tmp_path_factory.mktemp("chroma")) as server:
        yield server


@pytest.fixture(scope="session")
def pgvector_server():
    """A PostgreSQL server with pgvector."""
    programs = pgvector_programs()
    if programs is None or importlib.util.find_spec("psycopg_pool") is None:
        pytest.skip("needs the package pgserver (PostgreSQL with pgvector), reachable, and the extra `pgvector`")
    with restartable(programs) as server:
        yield server


@pytest.fixture
def corpus(tmp_path):
    """A BEIR folder of the shared passages, as its corpus text."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    rows = [{"_id": id, "title": title, "text": text} for id, (title, text) in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"beir:{folder}"
