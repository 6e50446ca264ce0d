"""`--fail-after` of `judge`, `arena play` and `build`: a server that refuses everything ends them, and they resume."""

import json
import re

import pytest

from ragrounds.evals.store.store import Store
from tests.conftest import succeeded
from tests.extensions.arena.staging import add_run
from tests.servers.grader_server import grader_server


@pytest.fixture(scope="module")
def down(tmp_path_factory):
    return tmp_path_factory.mktemp("grader") / "down"


@pytest.fixture(scope="module")
def grader(down):
    with grader_server("--down", str(down)) as running:
        yield running


@pytest.fixture
def refused(down):
    """While it is entered, the server refuses all that `grader-down` is asked."""
    down.touch()
    yield
    down.unlink(missing_ok=True)


@pytest.fixture
def two(home):
    with Store(home) as store:
        for name, words in (("thin", 2), ("full", 20)):
            add_run(store, name, [f"{name} {number}:" + " more" * words for number in range(60)])
    return home


def test_judging_ends_after_so_many_failures_and_goes_on(command, grader, two, down, refused):
    options = ("--kind", "equivalence", "--base-url", grader.url, "--concurrency", "1")
    before = grader.stats()["asked"]
    done = command("judge", "thin", *options, "--judge", "openai:grader-down", "--fail-after", "3")
    assert done.returncode == 3, done.stderr
    told = r"Ended early: 3 judgements of openai:grader-down\[.*\] failed \(--fail-after 3\), 3 of them by: .*8 tokens"
    assert re.search(told, done.stderr), done.stderr
    assert "same command resumes" in done.stderr
    assert "Some calls got no reply; the same command repeats them." in done.stderr
    assert grader.stats()["asked"] == before + 3
    share = command("judge", "thin", *options, "--judge", "openai:grader-down")
    assert "20 of 20 judgements of openai:grader-down" in share.stderr
    assert "(--fail-after 50%)" in share.stderr
    down.unlink()
    whole = succeeded(command("judge", "thin", *options, "--judge", "openai:grader-down"))
    assert "60 answers judged" in whole.stderr
    assert command("judge", "thin", *options, "--judge", "openai:x", "--fail-after", "lots").returncode == 2


@pytest.mark.slow
def test_an_arena_ends_after_so_many_failures_keeps_what_was_paid_and_goes_on(command, grader, two, down, refused):
    play = ("arena", "play", "thin", "full", "--schedule", "full", "--axis", "usefulness", "--resamples", "100")
    play += ("--judge", "openai:grader-down", "--base-url", grader.url, "--concurrency", "1")
    before = grader.stats()["asked"]
    done = command(*play, "--fail-after", "4")
    told = (
        r"Ended: 4 judgements of openai:grader-down\[.*\] failed \(--fail-after 4\), 4 of them by: .*; 58 matches of "
    )
    assert re.search(f"{told}the schedule were not played, and the same command resumes", done.stderr), done.stderr
    assert grader.stats()["asked"] == before + 4
    down.unlink()
    half = command(*play, "--max-total-tokens", "3000")
    paid = int(re.search(r"(\d+) model calls made", half.stderr)[1])
    assert 0 < paid < 120
    down.touch()
    broken = command(*play, "--fail-after", "50%")
    assert "of openai:grader-down" in broken.stderr
    down.unlink()
    whole = succeeded(command(*play, "--json"))
    assert f"{120 - paid} model calls made" in whole.stderr
    assert json.loads(whole.stdout)["axes"][0]["matches"] == 60


@pytest.mark.slow
def test_building_ends_after_so_many_failures_and_goes_on(command, grader, home, tmp_path, down, refused):
    build = ("build", "relevance-mining", "sample", "--corpus", "sample", "--retriever", "bm25", "--limit", "30")
    build += ("--model", "openai:grader-down", "--base-url", grader.url, "--display", "none", "--concurrency", "1")
    done = command(*build, "--out", str(tmp_path / "made"), "--fail-after", "2")
    assert done.returncode == 2, done.stderr  # nothing is kept: there is no benchmark
    told = re.search(r"Ended early: 2 attempts of relevance-mining.* failed \(--fail-after 2\).*resumes", done.stderr)
    assert told, done.stderr
    down.unlink()
    whole = command(*build, "--out", str(tmp_path / "made"))
    assert "Ended early" not in whole.stderr
    assert int(re.search(r"(\d+) model calls made", whole.stderr)[1]) >= 30
