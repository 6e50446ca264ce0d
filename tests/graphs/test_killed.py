"""All strategies in one run, killed again and again: what was answered is not asked again, and all ends the same."""

import os
import sys

import pytest

from ragrounds.evals.store.store import Store
from tests.forked import run_python
from tests.graphs.test_strategies import LOOKS
from tests.servers.process import openai_server

OLDER = ("vanilla_rag", "cot_refine_rag", "search_o1", "search_r1", "r1_searcher", "research", "i_medrag", "tool_agent")
KILLS = 2


@pytest.mark.slow
def test_a_run_of_all_strategies_that_was_killed_pays_for_no_answer_twice(tmp_path):
    undisturbed = ended(tmp_path / "clean")
    killed = ended(tmp_path / "killed", kills=KILLS, after=undisturbed[1] // (KILLS + 1))
    assert {agent for agent, _ in killed[0]} == {*LOOKS, *OLDER}
    assert killed[0] == undisturbed[0]
    # An answer that the server has sent may still have been on its way when the process died.
    assert 0 <= killed[1] - undisturbed[1] <= KILLS * undisturbed[2]


def ended(home, kills=0, after=0):
    """How each attempt ended, the answers that the server gave, and the most calls that were in flight."""
    agents = [option for agent in (*LOOKS, *OLDER) for option in ("--agent", agent)]
    with openai_server("--latency", "0.02") as server:
        command = [sys.executable, "-m", "ragrounds", "run", *agents, "--model", "openai:plain"]
        command += ["--base-url", server.url, "--limit", "2", "--display", "none", "--concurrency", "2"]
        environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
        for _ in range(kills):
            server.kills(command, environment, after=after)
        done = run_python(command, env=environment)
        assert done.returncode == 0, done.stderr
        stats = server.stats()
    with Store(home) as store:
        attempts = {
            (run.agent, attempt.question_id): (attempt.status, attempt.text)
            for run in store.runs()
            for attempt in store.attempts(run)
        }
    return attempts, stats["answered"], stats["most"]
