"""`ragrounds data fetch` and `verify`, as a user gives them, from a server on loopback."""

import hashlib
import json

import pytest

from ragrounds.evals.benchmarks import download, registry
from ragrounds.evals.benchmarks.cards import RemoteFile
from tests.benchmarks.test_fetching import CONTENT, Home
from tests.conftest import succeeded


@pytest.fixture
def public(monkeypatch):
    home = Home()
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = RemoteFile(of="mirage", name="benchmark.json", url=home.url, bytes=len(CONTENT), sha256=digest)
    for module in (download, registry):
        monkeypatch.setattr(module, "remote_files", lambda name: (file,))
    yield home
    home.server.shutdown()
    home.server.server_close()


def test_fetch_says_the_licence_first_and_registers(command, public):
    done = succeeded(command("data", "fetch", "mirage"))
    licence, here = done.stderr.splitlines()
    assert "Licence: public domain (NCBI)" in licence
    assert "400 questions" in here
    assert not done.stdout


def test_verify_checks_the_hash_of_a_registered_copy(command, public, home):
    command("data", "fetch", "mirage")
    done = command("data", "verify", "mirage", "--json")
    checked = json.loads(done.stdout)["checked"]
    assert checked["files"] == {"benchmark.json": True}
    assert done.returncode == 1  # 400 questions are not MIRAGE's 7,663
    assert done.stderr.splitlines() == ["Differs: the card says 7,663 questions."]
    copy = next((home / "benchmarks").rglob("benchmark.json"))
    copy.write_bytes(CONTENT.replace(b"Which?", b"Whose?", 1))
    done = command("data", "verify", "mirage")
    assert done.returncode == 1
    assert "benchmark.json: differs from the published file" in done.stdout
    assert "Differs: the SHA-256 of benchmark.json is not the card's." in done.stderr


def test_verify_a_file_where_it_lies(command, public, tmp_path):
    (tmp_path / "other.json").write_bytes(CONTENT)
    done = command("data", "verify", "mirage:other.json")
    assert "other.json: as published" in done.stdout


def test_verify_what_no_card_describes(command, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"id": "q1", "question": "?", "options": ["a", "b"], "answer": "A"}\n')
    done = succeeded(command("data", "verify", "jsonl:mine.jsonl"))
    assert "mine.jsonl: not described by the card" in done.stdout
    assert "only the size was checked" in done.stderr
    assert command("data", "verify", "sample").returncode == 0
