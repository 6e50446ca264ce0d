"""Every answering strategy in one `ragrounds run` over PubMedQA*, against a server that makes each of them search,
repeat itself, hit its limits and refine. `RAGROUNDS_TEST_QUESTIONS` sets how many of the 500 questions are asked."""

import contextlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import node_path
from ragrounds.records import Called, Noted
from tests.servers.process import ROOT, Running

QUESTIONS = int(os.environ.get("RAGROUNDS_TEST_QUESTIONS", "24"))
LEAST = {
    # agent → (searches, rounds of its loop, notices) that some attempt reaches
    "direct": (0, 0, set()),
    "direct_cot": (0, 0, set()),
    "vanilla_rag[top_k=4]": (1, 0, set()),
    "vanilla_rag[query_generation=hyde,top_k=4]": (1, 0, set()),
    "vanilla_rag[query_generation=query2doc,top_k=4]": (1, 0, set()),
    "vanilla_rag[query_generation=lamer,top_k=4]": (2, 0, set()),
    "vanilla_rag[query_generation=answer[agent=search_r1],top_k=4]": (5, 5, {"turn_limit", "invalid_action"}),
    "cot_refine": (0, 0, set()),
    "cot_refine_rag": (1, 0, set()),
    "search_o1[top_k=4]": (10, 15, {"repeated_query", "search_limit", "turn_limit", "no_answer"}),
    "search_o1[reading=false,top_k=4]": (10, 15, {"repeated_query", "search_limit", "turn_limit", "no_answer"}),
    "search_r1": (4, 5, {"invalid_action", "turn_limit", "no_answer"}),
    "i_medrag[top_k=4]": (12, 4, {"repeated_query", "no_queries"}),
    "tool_agent[top_k=4]": (9, 10, {"malformed_call", "turn_limit"}),
    "oracle": (0, 0, set()),
    "native_search": (0, 0, set()),
}
LOOPS = ("reason", "act", "look_up", "think")


@contextlib.contextmanager
def strategist():
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.strategist"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Running(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("continues", ["turns", "prefix"])
def test_all_strategies_in_one_run(cli, home, data: Path, continues, capsys):
    agents = [part for agent in LEAST for part in ("--agent", agent)]
    with strategist() as server:
        command = [
            "run", "--benchmark", f"mirage/pubmedqa:{data}/mirage/benchmark.json", *agents,
            "--corpus", f"beir:{data}/beir/pubmedqa_1k", "--model", f"openai:strategist[continues={continues}]",
            "--base-url", server.url, "--limit", str(QUESTIONS), "--display", "none",
        ]  # fmt: skip
        done = cli(*command, timeout=3000)
    assert done.returncode == 0, done.stderr[-2000:]
    if continues == "prefix":
        # The server is gone: every message must be what it was, or the journal does not hold its answer.
        again = cli(*command, "--new", "--journal", "replay", timeout=3000)
        assert again.returncode == 0, again.stderr[-2000:]
    lines, share = [], Counter()
    with Store(home) as store:
        every = sorted(store.runs(), key=lambda run: run.created)
        runs = {run.agent: run for run in reversed(every)}
        assert len(runs) == len(LEAST)
        for run in every:
            if run.id != runs[run.agent].id:
                assert texts(store, run) == texts(store, runs[run.agent]), f"replayed otherwise: {run.agent}"
        for agent, run in runs.items():
            attempts = list(store.attempts(run))
            assert len(attempts) == QUESTIONS
            assert Counter(attempt.status for attempt in attempts) == {"completed": QUESTIONS}, agent
            most: defaultdict[str, int] = defaultdict(int)
            notes: Counter[str] = Counter()
            for attempt in attempts:
                calls = [event.call for event in attempt.events if isinstance(event, Called)]
                most["searches"] = max(most["searches"], sum(call.kind == "search" for call in calls))
                nodes = Counter(node_path(attempt.events))
                most["rounds"] = max(most["rounds"], *(nodes[node] for node in LOOPS))
                notes.update({event.what for event in attempt.events if isinstance(event, Noted)})
                for call in calls:
                    if call.kind == "model":
                        share["asked"] += 1
                        share["saved"] += call.cached
            lines.append(f"{agent:62} searches ≤ {most['searches']:2}  rounds ≤ {most['rounds']:2}  {dict(notes)}")
            searches, rounds, notices = LEAST[next(key for key in LEAST if same(key, agent))]
            assert most["searches"] >= searches, agent
            assert most["rounds"] >= rounds, agent
            assert notices <= set(notes), agent
    with capsys.disabled():
        saved = share["saved"] / share["asked"]
        print(f"\n{QUESTIONS} questions, {continues}: {share['asked']} model calls, {saved:.1%} saved by the journal")
        print("\n".join(lines))
    assert share["saved"] >= 3 * QUESTIONS, "both CoT-Refines and the direct back-offs share the chain of thought"


def texts(store, run):
    return {
        attempt.question_id: (attempt.status, attempt.text, node_path(attempt.events))
        for attempt in store.attempts(run)
    }


def same(left: str, right: str) -> bool:
    from ragrounds.specs import parse

    return str(parse(left)) == right
