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


def test_a_cut_download_is_one_line_and_goes_on(command, public):
    public.way = "cut"
    done = command("data", "fetch", "mirage")
    assert done.returncode == 2
    assert "the same command resumes" in done.stderr.splitlines()[-1]
    public.way = "whole"
    assert command("data", "fetch", "mirage").returncode == 0
    assert public.ranges[-1] == f"bytes={len(CONTENT) // 2}-"


def test_what_cannot_be_fetched(command):
    done = command("data", "fetch", "ogcarebench")
    assert done.returncode == 2
    assert "cannot be fetched" in done.stderr
    assert "Did you mean 'mirage'" in command("data", "fetch", "mirag").stderr


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


@pytest.mark.slow
@pytest.mark.data
def test_verify_the_real_file(command, data):
    command("data", "add", "mirage", str(data / "mirage/benchmark.json"))
    done = succeeded(command("data", "verify", "mirage"))
    assert "7,663 questions" in done.stdout
    assert "benchmark.json: as published" in done.stdout
