"""A store in which no two figures and no two costs are equal: a figure that is shown in another's place is seen.

Three runs on two datasets of different sizes, whose texts may not be given on: the mean over datasets is not that over
questions. Some questions are in clusters of different sizes, some attempts failed, some calls cost nothing as they were
in the journal, and tokens are used in every role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragrounds.agents.agent import open_agent
from ragrounds.base.records import Attempt, Call, Called, Entered, Left, Run, Usage
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.evals.engine.plan import fingerprint
from ragrounds.evals.scorers.catalogue import usual_scores
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import listed_price

MODEL, EMBEDDINGS = "openai:gpt-4o-mini", "openai:text-embedding-3-small"
SIZES = {"mmlu": 9, "medqa": 5}
"""Dataset → questions."""
RIGHT = {"direct": (2, 4), "vanilla_rag[top_k=4]": (7, 1), "search_o1": (5, 2)}
"""Agent → right answers in the first and in the second dataset, by the scorer that reads any wording."""
FAILED = {"direct": 1, "vanilla_rag[top_k=4]": 2, "search_o1": 3}
"""Agent → attempts that failed: the last ones of the first dataset."""
CLUSTERS = {"mmlu": {1: 0, 2: 0, 5: 4}, "medqa": {3: 2}}
"""Dataset → the number of a question that repeats another → that of the other."""
ROLES = ("embedding", "querying", "reading", "refining", "answering")


def write_benchmark(path: Path, right: str = "A") -> str:
    """Write the questions in MIRAGE's form; return their spec. `right`: the answer of every third question."""
    datasets: dict[str, dict[str, object]] = {}
    for dataset, size in SIZES.items():
        datasets[dataset] = {
            f"{dataset}-{number:03}": {
                "question": f"Which of the two is {dataset} number {CLUSTERS[dataset].get(number, number)}?",
                "options": {"A": "the left one", "B": "the right one"},
                "answer": right if number % 3 == 1 else "A",
            }
            for number in range(size)
        }
    path.write_text(json.dumps(datasets), encoding="utf-8")
    return f"mirage:{path}"


def calls_of(run: int, place: int) -> Iterator[Call]:
    """Yield an attempt's calls, one in each role, each with tokens of its own. The journal answered some of them."""
    for number, role in enumerate(ROLES):
        actor = EMBEDDINGS if role == "embedding" else MODEL
        usage = Usage(1000 * (number + 1) + 210 * run + 7 * place, 0 if role == "embedding" else 60 + 17 * number + run)
        provider, _, model = actor.partition(":")
        yield Call(
            key=f"{run:02x}{place:02x}{number:02x}" + "5a" * 29, kind="model", role=role, node=role, actor=actor,
            at=1000.0 * run + place, seconds=0.1 + 0.03 * number, usage=usage, cached=(run + place + number) % 4 == 0,
            cost_uncached=listed_price(provider, model, usage),
        )  # fmt: skip


def answer(dataset: int, number: int, agent: str, gold: str) -> str:
    """Return what an agent wrote: the right letter, a wrong one, or none."""
    if number < RIGHT[agent][dataset]:
        # Only the scorer that reads any wording understands the first one.
        return f"The answer is {gold}, I think." if number == 0 else json.dumps({"answer_choice": gold})
    if number == RIGHT[agent][dataset]:
        return json.dumps({"answer_choice": "A" if gold == "B" else "B"})
    return "I do not know."


@dataclass
class Uneven:
    """The store's home, which tests only read, and the benchmark of its runs."""

    home: Path
    benchmark: str
    runs: dict[str, Run]
    """Agent → its run."""


def write_uneven(folder: Path) -> Uneven:
    """Write the benchmark and the runs."""
    home, spec = folder / "home", write_benchmark(folder / "benchmark.json", right="B")
    benchmark = load(spec, home)
    with Store(home) as store:
        runs = {agent: _write_run(store, benchmark, place, agent) for place, agent in enumerate(RIGHT, 1)}
    return Uneven(home, spec, runs)


def expected(agent: str) -> dict[str, float]:
    """Return a run's figures by their names in tables: shares, dollars, tokens and seconds, counted by hand."""
    place, sizes, count = list(RIGHT).index(agent) + 1, tuple(SIZES.values()), sum(SIZES.values())
    calls = [call for at in range(count) for call in calls_of(place, at)]
    used = [call.usage or Usage() for call in calls if call.role != "embedding"]
    shares = [right / size for right, size in zip(RIGHT[agent], sizes, strict=True)]
    return {
        "average": sum(shares) / len(shares),
        "pooled": sum(RIGHT[agent]) / count,
        **dict(zip(SIZES, shares, strict=True)),
        "paid": sum(call.cost_uncached or 0.0 for call in calls if not call.cached),
        "full price": sum(call.cost_uncached or 0.0 for call in calls),
        "in": sum(usage.input for usage in used),
        "out": sum(usage.output for usage in used),
        "time": sum(seconds(place, at) for at in range(count)) / count,
    }


def seconds(run: int, place: int) -> float:
    """Return how long an attempt took."""
    return 0.41 * run + 0.013 * place


def _write_run(store: Store, benchmark: Benchmark, place: int, agent: str) -> Run:
    identity = {
        "agent": agent, "graph": open_agent(agent).card.graph, "models": {"model": MODEL},
        "benchmark": benchmark.name, "questions": benchmark.version, "tier": "journaled",
    }  # fmt: skip
    run = Run(
        id=f"run-{place}", agent=agent, benchmark=benchmark.name, questions=benchmark.version, count=len(benchmark),
        epochs=1, fingerprint=fingerprint(identity), identity=identity, created=86400.0 * place,
    )  # fmt: skip
    attempts, scores = [], []
    for at, question in enumerate(benchmark.questions):
        dataset, number = (0, at) if at < SIZES["mmlu"] else (1, at - SIZES["mmlu"])
        failed = dataset == 0 and number >= SIZES["mmlu"] - FAILED[agent]
        calls = list(calls_of(place, at))
        paid = [0.0 if call.cached else call.cost_uncached or 0.0 for call in calls]
        text = answer(dataset, number, agent, benchmark.golds[question.id].answer)
        attempt = Attempt(
            run=run.id, question_id=question.id, epoch=0, status="failed" if failed else "completed",
            text="" if failed else text, reason="no reply" if failed else "", at=calls[0].at,
            seconds=seconds(place, at), model_calls=len(ROLES), cost_paid=sum(paid),
            cost_uncached=sum(call.cost_uncached or 0.0 for call in calls),
            usage=sum((call.usage or Usage() for call in calls if call.role != "embedding"), Usage()),
            events=(Entered(step=0, node="answer", at=calls[0].at), *(Called(step=0, call=call) for call in calls),
                    Left(step=0, seconds=0.3, changes={"answer": text})),
        )  # fmt: skip
        attempts.append(attempt)
        scores += [] if failed else usual_scores(attempt, question, benchmark.golds[question.id])
    store.add_run(run, benchmark.questions, benchmark.golds)
    store.add_attempts(run, attempts, scores)
    return run
