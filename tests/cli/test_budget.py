"""`ragrounds run` with a budget."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli


@pytest.mark.slow
def test_a_budget_of_tokens_ends_the_run_and_the_same_command_goes_on(command: Cli) -> None:
    options = ["run", "--agent", "direct", "--agent", "vanilla_rag[top_k=2]", "--display", "none", "--json"]
    done = command(*options, "--max-total-tokens", "2000", "--concurrency", "2")
    assert done.returncode == 0, done.stderr
    assert "Ended early: the budget of 2,000 tokens is used up" in done.stderr
    found = json.loads(done.stdout)
    assert 0 < found["questions"] < 107
    assert [row["statuses"] for row in found["rows"]] == [{"completed": found["questions"]}] * 2
    whole = json.loads(command(*options).stdout)
    assert whole["questions"] == 107
