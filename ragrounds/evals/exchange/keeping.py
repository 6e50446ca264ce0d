"""Writing imported runs into the store, scored."""

from __future__ import annotations

from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.exchange.mirage_predictions import Imported
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.store import Store
from ragrounds.records import Run, Score


def keep(store: Store, imported: Imported, benchmark: Benchmark) -> Run:
    """Write a run with its attempts and scores; the same content imported again is the same run."""
    run = store.latest(imported.run.fingerprint)
    if run is None:
        run = imported.run
        store.add_run(run, benchmark.questions, benchmark.golds)
    questions = {question.id: question for question in benchmark.questions}
    scores: list[Score] = []
    for attempt in imported.attempts:
        question = questions[attempt.question_id]
        scores += [scorer.score(attempt, question, benchmark.golds[question.id]) for scorer in scorers_for(question)]
    store.add_attempts(run, imported.attempts, scores)
    return run
