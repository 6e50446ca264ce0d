"""A store of many runs, for what `ragrounds publish` costs: `python perf/publish_runs.py HOME [RUNS]`.

The built-in baseline answers the sample benchmark once with six agents. Their attempts are then copied under other
agents and models, with some of the scores turned, until there are RUNS runs (500) in five sets of questions. The calls
behind them are those of the first six.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.store.store import Store
from ragrounds.records import Run

AGENTS = ("direct", "direct_cot", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=4]", "vanilla_rag[top_k=8]", "search_o1")
SETS = (107, 100, 90, 80, 60)
"""Questions of each set: a set is the first so many of the sample."""


def main() -> None:
    home, wanted = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    agents = [word for name in AGENTS for word in ("--agent", name)]
    command = [sys.executable, "-m", "ragrounds", "run", *agents, "--display", "none"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    draw = random.Random(0)
    with Store(home) as store:
        first = [run for run in store.runs() if not run.id.startswith("copy-")]
        for number in range(wanted - len(first)):
            copy(store, first[number % len(first)], number, SETS[number % len(SETS)], draw)


def copy(store: Store, run: Run, number: int, count: int, draw: random.Random) -> None:
    """A run of the first `count` questions with the attempts of another, some of whose scores are turned."""
    questions, golds = store.questions(run)
    kept = questions[:count]
    ids = {question.id for question in kept}
    here = {id: golds[id] for id in ids}
    drawn = {"seed": 0, "limit": count, "per_dataset": None, "of": len(questions)}
    made = replace(
        run,
        id=f"copy-{number}",
        agent=f"{run.agent.partition('[')[0]}[seed={number}]",
        questions=content_version(kept, here),
        count=count,
        fingerprint=f"{number:064x}",
        identity={
            **run.identity,
            "models": {"model": f"openai:model-{number % 7}"},
            "selection": drawn if count < len(questions) else None,
        },
        created=run.created + 3600 * number,
    )
    turned = {score.question_id for score in store.scores(run) if draw.random() < 0.15}
    scores = [
        replace(
            score, value=1.0 - score.value if score.question_id in turned and score.value is not None else score.value
        )
        for score in store.scores(run)
        if score.question_id in ids
    ]
    attempts = [replace(one, run=made.id) for one in store.attempts(run) if one.question_id in ids]
    store.add_run(made, kept, here)
    store.add_attempts(made, attempts, scores)


if __name__ == "__main__":
    main()
