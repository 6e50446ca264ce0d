"""Stored runs and searches that tests of analyses are made of."""

from __future__ import annotations

from ragrounds.base.records import Attempt, Call, Called, Gold, Passage, Question, Run, Score
from ragrounds.evals.analyses.run_data import scored_run
from ragrounds.evals.trace.traces import FoundPassages

COUNT = 20
OPTIONS = {"A": "yes", "B": "no"}


def passage(document, corpus="pubmed@1"):
    return Passage(id=f"{document}#0", document=document, title="", text="…", corpus=corpus)


def add(store, agent, right, *, epochs=1, calls=None, created=1.0, **identity):
    """A run whose question i is right where right(i, epoch); its first search is under the key calls(i)."""
    kinds = ["treatment", "test", "diagnosis"]
    questions = [
        Question(
            id=f"x/{i}",
            benchmark=f"b/{i % 2}",
            text=f"{i}?",
            options=OPTIONS,
            group=f"g{i % 4}",
            metadata={"significance_type": kinds[i % 3]},
        )
        for i in range(COUNT)
    ]
    golds = {
        f"x/{i}": Gold(question_id=f"x/{i}", answer="A", documents=(f"d{i}",) if i < 16 else ()) for i in range(COUNT)
    }
    run = Run(
        id=f"{agent}-{created}",
        agent=agent,
        benchmark="b",
        questions="set",
        count=COUNT,
        epochs=epochs,
        fingerprint=f"{agent} {created}",
        identity={"models": {"model": "openai:m"}, **identity},
        created=created,
    )
    store.add_run(run, questions, golds)
    attempts, scores = [], []
    for i in range(COUNT):
        for epoch in range(epochs):
            events = ()
            if calls:
                key = calls(i)
                call = Call(key=key, kind="search", role="querying", node="s", actor="bm25", at=0, seconds=0)
                events = (Called(step=0, call=call),)
            attempts.append(
                Attempt(run=run.id, question_id=f"x/{i}", epoch=epoch, status="completed", text="A", events=events)
            )
            scores.append(
                Score(
                    question_id=f"x/{i}",
                    epoch=epoch,
                    scorer="strict",
                    value=float(right(i, epoch)),
                    answer_status="answered",
                )
            )
    store.add_attempts(run, attempts, scores)
    return scored_run(store, run, "strict")


def placed(ranks):
    """For question i a search with its gold document at ranks[i]; 0: not found."""
    found = {}
    for i, rank in enumerate(ranks):
        documents = [f"n{i}-{place}" for place in range(1, 40)]
        if rank:
            documents[rank - 1] = f"d{i}"
        found[f"x/{i}"] = FoundPassages("q", tuple(passage(document) for document in documents))
    return found
