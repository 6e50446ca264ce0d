"""What a search costs: a query's vector from a server has a price, or an unknown one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.servers.process import Running
from tests.servers.ragas_server import ragas_server

TOKENS = 10
"""What the server counts for each text."""


@pytest.fixture(scope="module")
def embedding() -> Iterator[Running]:
    with ragas_server() as running:
        yield running


def priced(home: Path, dollars: float) -> None:
    home.mkdir()
    (home / "prices.toml").write_text(f'["openai:letters"]\ninput = {dollars}\noutput = 0.0\n')


def run(command: Cli, embedding: Running, model: str, *more: str, limit: int = 8) -> None:
    retriever = f'dense[model="openai:{model}",base_url="{embedding.url}"]'
    agent = f"vanilla_rag[retriever={retriever}]"
    done = command("run", "--agent", agent, "--limit", str(limit), "--display", "none", *more)
    assert done.returncode == 0, done.stderr


def searching(command: Cli) -> dict[str, float | None]:
    told = json.loads(command("ledger", "--by", "role", "--json").stdout)
    (line,) = [line for line in told["lines"] if line["role"] == "searching"]
    return {**line, "whole": told["total"]["cost_uncached"]}


def test_a_vector_is_paid_for_at_the_users_price(command: Cli, home: Path, embedding: Running) -> None:
    priced(home, 2.0)
    run(command, embedding, "letters")
    first = searching(command)
    assert first["searches"] == 8
    assert first["cost_paid"] == first["cost_uncached"] == first["whole"] == pytest.approx(8 * TOKENS * 2 / 1e6)
    run(command, embedding, "letters", "--new")
    both = searching(command)
    assert (both["cost_paid"], both["cost_uncached"]) == (first["cost_paid"], pytest.approx(2 * 8 * TOKENS * 2 / 1e6))


def test_what_a_server_of_ones_own_charges_is_unknown_until_it_is_said(command: Cli, embedding: Running) -> None:
    run(command, embedding, "letters")
    found = searching(command)
    assert (found["cost_paid"], found["cost_uncached"], found["unpriced"]) == (None, None, 8)


def test_a_budget_counts_it(command: Cli, home: Path, embedding: Running) -> None:
    priced(home, 1000.0)
    run(command, embedding, "letters", "--max-cost", "0.035", "--concurrency", "1", "--yes")
    assert searching(command)["searches"] == 4


def test_a_retriever_in_this_process_costs_nothing(command: Cli) -> None:
    done = command("run", "--agent", "vanilla_rag", "--limit", "3", "--display", "none")
    assert done.returncode == 0, done.stderr
    assert searching(command)["cost_uncached"] == 0.0
