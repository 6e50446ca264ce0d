"""Every account against what the server counted: runs, judges, arenas, builds, retrieval, in each journal mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

import ragrounds as rr
from ragrounds.base.errors import StopRun
from ragrounds.base.records import FINAL
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import collect_garbage
from ragrounds.evals.store.journal import Mode
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.functions import remove_arena
from tests.beir_folders import write_beir
from tests.cli_grading.test_judge_command import ANSWERS, stage
from tests.conftest import Cli
from tests.extensions.construction.casing import drawn
from tests.servers.grader_server import grader_server
from tests.servers.process import Account, Running, running

PRICED = "price_input=1000,price_output=2000"
NOTHING = Account(0, 0, 0)
MODES: tuple[Mode, ...] = ("reuse", "replay", "fresh")


@pytest.fixture(scope="module")
def grader() -> Iterator[Running]:
    with grader_server() as server:
        yield server


def booked(*runs: str) -> tuple[float, float, int]:
    """Dollars paid and uncached by the ledger, and its calls that somebody paid for."""
    total = rr.ledger(runs).ledger.total
    assert total.cost_paid is not None
    assert total.cost_uncached is not None
    return total.cost_paid, total.cost_uncached, total.model_calls - total.reused - total.failed


def same(found: tuple[float, float, int], paid: Account, uncached: float) -> None:
    assert found == (pytest.approx(paid.dollars()), pytest.approx(uncached), paid.calls)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("mode", MODES)
def test_runs_that_share_their_calls(server: Running, mode: Mode) -> None:
    start = server.account()
    agents = ["direct", "direct[limits.calls=9]"]
    model = f"openai:plain-{mode}[{PRICED}]"
    asked = {"model": model, "base_url": server.url, "concurrency": 1}
    rr.run("sample", agents, limit=6, max_total_tokens=100, **asked)
    part = server.account() - start
    assert 0 < part.calls < 6, "the budget ended it"
    same(booked(), part, 2 * part.dollars())
    rr.run("sample", agents, limit=6, **asked)
    whole = server.account() - start
    assert whole.calls == 6
    same(booked(), whole, 2 * whole.dollars())

    again = rr.run("sample", agents, limit=6, new=True, journal=mode, **asked)
    more = server.account() - start - whole
    assert more.calls == (12 if mode == "fresh" else 0)
    same(booked(*again.ids), more, 2 * whole.dollars())
    same(booked(), server.account() - start, 4 * whole.dollars())
    attempts = [row for one in again.ids for row in rr.load(one).to_pandas("attempts").to_dict("records")]
    assert sum(row["cost_paid"] for row in attempts) == pytest.approx(more.dollars())
    rr.run("sample", agents, limit=6, journal=mode, **asked)
    assert server.account() - start - whole == more, "what a run has is not asked again"


@pytest.mark.slow
@pytest.mark.parametrize("judges", [["grader"], ["grader", "grader-mild"]], ids=["judge", "panel"])
@pytest.mark.parametrize("mode", MODES)
def test_judges(home: Path, grader: Running, mode: Mode, judges: list[str]) -> None:
    start = grader.account()
    for name in ("one", "other"):  # their equal answers share their calls
        stage(home, name, ANSWERS, asked="same")
    models = [f"openai:{name}[{PRICED}]" for name in judges]

    def judged(**more: object) -> tuple[float | None, float | None, int]:
        made = rr.judge(["one", "other"], "equivalence", judges=models, base_url=grader.url, **more).judged
        bills = made.runs
        assert all(one.cost_paid is not None and one.cost_uncached is not None for one in bills)
        return (
            sum(one.cost_paid or 0 for one in bills),
            sum(one.cost_uncached or 0 for one in bills),
            sum(one.calls - one.reused for one in bills),
        )

    part = judged(max_total_tokens=60, concurrency=1)
    first = grader.account() - start
    assert 0 < first.calls < 5 * len(judges)
    same(part, first, 2 * first.dollars())
    same(booked(), first, 2 * first.dollars())
    judged()
    whole = grader.account() - start
    assert whole.calls == 5 * len(judges)
    same(booked(), whole, 2 * whole.dollars())

    said = judged(journal=mode, concurrency=1)
    more = grader.account() - start - whole
    assert more.calls == (10 * len(judges) if mode == "fresh" else 0)
    same(said, more, 2 * whole.dollars())
    same(booked(), grader.account() - start, 2 * whole.dollars() + more.dollars())
    assert judged()[0] == 0
    same(booked(), grader.account() - start, 2 * whole.dollars() + more.dollars())


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_arenas(home: Path, grader: Running, mode: Mode) -> None:
    start = grader.account()
    texts = [f"answer {number}" for number in range(6)]
    for name, said in (("one", texts), ("other", [f"{text}, and more" for text in texts]), ("third", texts)):
        stage(home, name, said, asked="same")
    given = {"judges": f"openai:grader[{PRICED}]", "base_url": grader.url, "schedule": "full", "resamples": 100}

    def played(**more: object) -> tuple[float, float, int]:
        stand = rr.arena(["one", "other", "third"], progress=False, **given, **more)
        (cost,) = stand.report.costs.values()
        total = rr.ledger(by="run").ledger.lines
        (line,) = (line for line in total if line.run == stand.report.id)
        assert line.cost_paid is not None
        assert line.cost_uncached is not None
        assert cost.cost_paid == pytest.approx(line.cost_paid)
        assert cost.cost_uncached == pytest.approx(line.cost_uncached)
        return line.cost_paid, line.cost_uncached, line.model_calls - line.reused

    played(max_total_tokens=300, concurrency=1)
    first = grader.account() - start
    assert 0 < first.calls < 24
    found = played(journal="reuse", concurrency=1)
    whole = grader.account() - start
    assert found == (pytest.approx(whole.dollars()), pytest.approx(found[1]), whole.calls)
    assert found[1] >= found[0], "equal pairs in equal words are asked once"
    uncached = found[1]
    remove_arena("arena")
    found = played(journal=mode, concurrency=1)
    more = grader.account() - start - whole
    assert more.calls == 0 if mode != "fresh" else more.calls >= whole.calls
    # What was paid under its mark before it was removed is its own.
    paid = more if mode == "fresh" else whole
    assert found == (pytest.approx(paid.dollars()), pytest.approx(uncached), paid.calls)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_benchmarks_that_are_built(command: Cli, tmp_path: Path, mode: Mode) -> None:
    fates = ["kept", "bad timeline", "once question", "none"]
    reports = drawn("sample", len(fates), 5)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({one.text[:80]: fate for one, fate in zip(reports, fates, strict=True)}))
    with running("extensions.construction.builder_server", "--script", str(script)) as server:
        models = [f"--{role}=openai:{role}[{PRICED}]" for role in ("model", "rewriter", "checker")]
        given = [*models, "--base-url", server.url, "--limit", "4", "--seed", "5", "--display", "none", "--json"]

        def built(folder: str, *more: str) -> tuple[float, float, int]:
            done = command("build", "case-questions", "sample", *given, "--out", str(tmp_path / folder), *more)
            assert done.returncode == 0, done.stderr
            bill = json.loads(done.stdout)["made"]["bill"]
            return bill["cost_paid"], bill["cost_uncached"], bill["calls"] - bill["reused"]

        built("out", "--max-total-tokens", "10", "--concurrency", "1")
        first = server.account()
        built("out")
        whole = server.account()
        assert 0 < first.calls < whole.calls
        same(booked(), whole, whole.dollars())
        found = built("again", "--new", "--journal", mode)
        more = server.account() - whole
        assert (more.calls > 0) is (mode == "fresh")
        uncached = more if mode == "fresh" else whole  # what is malformed once is not any more
        same(found, more, uncached.dollars())
        same(booked(), server.account(), whole.dollars() + uncached.dollars())


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_retrieval_by_servers(home: Path, tmp_path: Path, mode: Mode) -> None:
    texts = {f"d{n}": text for n, text in enumerate(("statins and the heart", "sleep and light", "fever in children"))}
    queries = {id.replace("d", "q"): f"{text}?" for id, text in texts.items()}
    folder = write_beir(tmp_path / "set", texts, queries, zip(queries, texts, strict=True))
    home.mkdir(exist_ok=True)
    (home / "prices.toml").write_text('["openai:embed"]\ninput = 1000.0\noutput = 2000.0\n')
    with running("openai_server") as writer, running("ragas_server") as embedder:
        dense = f'dense[model="openai:embed",base_url="{embedder.url}"]'

        def found(**more: str) -> tuple[dict[str, float], Account, Account]:
            before = writer.account(), embedder.account()
            plain, entry = rr.retrieve(
                f"beir:{folder}", dense, query_generation="hyde", model=f"openai:plain[{PRICED}]",
                base_url=writer.url, progress=False, **more,
            ).entries  # fmt: skip
            entry["searches"] = plain["search_cost_paid"] + entry["search_cost_paid"]
            return entry, writer.account() - before[0], embedder.account() - before[1]

        entry, whole, _ = found()  # the corpus is embedded, too
        assert whole.calls > 0
        assert entry["generation_cost_paid"] == pytest.approx(whole.dollars())
        entry, more, sent = found(journal=mode)
        assert (more.calls == whole.calls) is (mode == "fresh")
        assert entry["generation_cost_paid"] == pytest.approx(more.dollars())
        assert entry["generation_cost_uncached"] == pytest.approx(whole.dollars())
        assert sent.calls > 0
        assert entry["searches"] == pytest.approx(sent.dollars())


def test_a_fresh_run_that_was_killed_pays_once(home: Path, server: Running) -> None:
    start = server.account()
    asked = {"model": f"openai:killed[{PRICED}]", "base_url": server.url, "progress": False}
    rr.run("sample", "direct", limit=6, **asked)
    once = server.account() - start
    made = rr.run("sample", "direct", limit=6, new=True, journal="fresh", **asked)
    twice = server.account() - start
    with Store(home) as store:
        number = store.number(store.run(made.ids[0]))
        with store.engine.begin() as connection:  # as after `kill -9` before the attempts' rows
            connection.execute(sa.delete(schema.scores).where(schema.scores.c.run == number))
            connection.execute(sa.delete(schema.attempts).where(schema.attempts.c.run == number))
    assert rr.ledger().unfinished.calls == 6
    rr.run("sample", "direct", limit=6, journal="fresh", **asked)
    assert server.account() - start == twice, "its own calls are not made twice"
    assert rr.ledger().unfinished.calls == 0
    with Store(home) as store:
        assert collect_garbage(store.engine, FINAL, hours=0.0, remove=True).calls.count == 0
        with store.engine.connect() as connection:
            assert connection.execute(sa.select(schema.recalls)).all() == [], "nobody's work is broken off"
    same(booked(), twice, 2 * once.dollars())


@pytest.mark.parametrize("after", ["fresh", "reuse"])
def test_a_fresh_judging_that_was_killed_pays_once(
    home: Path, grader: Running, monkeypatch: pytest.MonkeyPatch, after: Mode
) -> None:
    start = grader.account()
    stage(home, "one", [f"answer {number}" for number in range(6)])

    def judged(mode: Mode) -> float | None:
        given = {"judges": f"openai:grader[{PRICED}]", "base_url": grader.url, "progress": False}
        return rr.judge("one", "equivalence", journal=mode, **given).judged.runs[0].cost_paid

    judged("reuse")
    once = grader.account() - start
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_scores", lambda *given, **more: (_ for _ in ()).throw(StopRun("killed")))
        with pytest.raises(StopRun):
            judged("fresh")
    twice = grader.account() - start
    assert twice.calls == 2 * once.calls
    assert judged(after) == pytest.approx(once.dollars()), "it bills what the killed one paid"
    assert grader.account() - start == twice
    same(booked(), twice, twice.dollars())
    judged("fresh")
    same(booked(), grader.account() - start, 3 * once.dollars())
