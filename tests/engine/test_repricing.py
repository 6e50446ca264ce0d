"""Prices that are given later: what is stored is repriced as if they had been known, and nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.store.care.repricing import RepricedCalls
from ragrounds.evals.store.store import Store
from tests.cli_grading.test_judge_command import ANSWERS, stage
from tests.conftest import Cli
from tests.servers.grader_server import grader_server
from tests.servers.process import Running, running

GIVEN, WRITTEN = 1000.0, 2000.0
PRICED = f"price_input={GIVEN:g},price_output={WRITTEN:g}"


@pytest.fixture(scope="module")
def grader() -> Iterator[Running]:
    with grader_server() as server:
        yield server


def lines(**more: object) -> dict[str, tuple[float | None, float | None]]:
    found = rr.ledger(by="model", **more).ledger.lines
    return {line.model.partition("[")[0]: (line.cost_paid, line.cost_uncached) for line in found}


def test_runs(server: Running, home: Path, command: Cli) -> None:
    start = server.account()
    agents = ["direct", "direct[limits.calls=9]"]
    for name in ("late", "early"):
        model = f"openai:{name}" + (f"[{PRICED}]" if name == "early" else "")
        rr.run("sample", agents, limit=4, model=model, base_url=server.url)
    whole = server.account() - start
    early = lines()["openai:early"]
    assert lines()["openai:late"] == (None, None)
    told = command("ledger", "--reprice", "--price", f"openai:late[{PRICED}]", "--by", "model")
    assert told.returncode == 0, told.stderr
    assert "8 stored calls have a price now; 0 are still unknown." in told.stderr
    assert server.account() - start == whole, "nothing is asked"
    # The prompts and replies of both models are as long, so both cost the same; what was shared was paid once.
    assert lines() == {"openai:late": pytest.approx(early), "openai:early": early}
    with Store(home) as store:
        attempts = [attempt for run in store.runs() for attempt in store.summaries(run)]
    assert sum(one.cost_paid or 0.0 for one in attempts) == pytest.approx(whole.dollars())
    again = command("ledger", "--reprice", "--price", "openai:late[price_input=1,price_output=1]", "--by", "model")
    assert "0 stored calls have a price now" in again.stderr
    assert lines() == {"openai:late": pytest.approx(early), "openai:early": early}, "a price that is known stays"


def test_comparisons_show_the_new_costs(server: Running, home: Path) -> None:
    made = rr.run("sample", "direct", limit=4, model="openai:slow", base_url=server.url)
    assert rr.compare(made).comparison.rows[0].cost_uncached is None
    (home / "prices.toml").write_text('["openai:slow"]\ngpu_hour = 3600.0\n')
    assert rr.ledger(made, reprice=True).repriced == RepricedCalls(priced=4)
    cost = rr.compare(made).comparison.rows[0].cost_uncached
    assert cost is not None
    assert cost > 0, "a dollar for each second that the server was busy, which the journal knows"


def test_judges_and_arenas(grader: Running, home: Path) -> None:
    start = grader.account()
    for name in ("one", "other"):
        stage(home, name, ANSWERS if name == "one" else [f"{text}." for text in ANSWERS], asked="same")
    rr.judge(["one", "other"], "equivalence", judges="openai:late", base_url=grader.url)
    judged = grader.account()
    rr.judge(["one", "other"], "equivalence", judges="openai:late", base_url=grader.url, journal="fresh")
    rr.arena(["one", "other"], "openai:late", base_url=grader.url, progress=False, resamples=100)
    whole = grader.account() - start
    assert lines() == {"openai:late": (None, None)}
    changed = rr.ledger(reprice=True, prices=f"openai:late[{PRICED}]").repriced
    assert changed == RepricedCalls(priced=whole.calls)
    assert judged != start
    assert lines() == {"openai:late": pytest.approx([whole.dollars()] * 2)}
    from ragrounds.extensions.arena.functions import show_arena

    (cost,) = show_arena(resamples=100).report.costs.values()
    assert cost.cost_paid == cost.cost_uncached
    assert 0 < (cost.cost_paid or 0) < whole.dollars()


def test_searches_by_an_embedder(home: Path) -> None:
    with running("ragas_server") as embedder:
        retriever = f'dense[model="openai:letters",base_url="{embedder.url}"]'
        made = rr.run("sample", f"vanilla_rag[retriever={retriever}]", limit=4)
    assert rr.ledger(made).ledger.total.cost_uncached is None
    (home / "prices.toml").write_text('["openai:letters"]\ninput = 1000.0\noutput = 0.0\n')
    rr.ledger(made, reprice=True)
    assert rr.ledger(made).ledger.total.cost_uncached == pytest.approx(4 * 10 * 1000 / 1e6)


def test_unknown_tokens_stay_unknown(server: Running, home: Path) -> None:
    made = rr.run("sample", "direct", limit=2, model="openai:fault-no-usage", base_url=server.url)
    changed = rr.ledger(made, reprice=True, prices=f"openai:fault-no-usage[{PRICED}]").repriced
    assert changed is not None
    assert (changed.priced, changed.unknown) == (0, 2)
    assert rr.ledger(made).ledger.total.cost_uncached is None


@pytest.mark.usefixtures("home")
def test_what_cannot_be_meant_is_said() -> None:
    with pytest.raises(UserError, match="`price` needs `reprice`"):
        rr.ledger(prices="openai:late[price_input=1,price_output=1]")
    with pytest.raises(UserError, match="has no price"):
        rr.ledger(reprice=True, prices="openai:late")
