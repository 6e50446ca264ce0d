"""Stores with runs made up by hand, for the tests of comparisons and reports."""

import msgspec

from ragrounds.base.records import Attempt, Gold, Question, Run, Score, Usage
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.store.store import Store

OPTIONS = {"A": "yes", "B": "no"}


def questions(count=4, benchmark="x/one", **more):
    """`count` choice questions, all with the answer A."""
    return [
        Question(id=f"{benchmark}/{index}", benchmark=benchmark, text=f"Question {index}?", options=OPTIONS, **more)
        for index in range(count)
    ]


def add_run(
    store: Store,
    name,
    asked,
    right,
    *,
    epochs=1,
    scorer="strict",
    cost_uncached=0.01,
    usage=None,
    status=None,
    answer_statuses=None,
    origin="replayed",
    texts=None,
    events=None,
    identity=None,
    gold="A",
    documents=None,
    id=None,
    servers=None,
    model_calls=1,
    unanswered=0,
):
    """A run of the agent `name`: `right[question][epoch]`, or `right[question]` for one epoch, is the score; a value of
    ``...`` is an attempt that was not made, ``None`` a score without a value, "unscored" an answer nobody scored;
    `documents` names the gold documents of questions, by their places."""
    golds = {
        question.id: Gold(question_id=question.id, answer=gold, documents=(documents or {}).get(place, ()))
        for place, question in enumerate(asked)
    }
    run = Run(
        id=id or f"{name}-run",
        agent=name,
        benchmark="x",
        questions=content_version(asked, golds),
        count=len(asked),
        epochs=epochs,
        fingerprint=f"print of {id or name}",
        identity=identity or {"models": {"model": "test:model"}, "agent": name},
        created=1.0,
        origin=origin,
        servers=servers or {},
    )
    store.add_run(run, asked, golds)
    attempts, scores = [], []
    for place, (question, values) in enumerate(zip(asked, right, strict=True)):
        for epoch, value in enumerate(values if isinstance(values, list | tuple) else [values]):
            if value is ...:
                continue
            ended = (status or {}).get(place, "completed")
            attempts.append(
                Attempt(
                    run=run.id,
                    question_id=question.id,
                    epoch=epoch,
                    status=ended,
                    text=(texts or {}).get(place, "The answer is A."),
                    usage=Usage(100 * (place + 1), 10) if usage is None else usage,
                    cost_paid=cost_uncached,
                    cost_uncached=cost_uncached if not isinstance(cost_uncached, list) else cost_uncached[place],
                    seconds=0.5,
                    model_calls=model_calls,
                    unanswered=unanswered,
                    events=tuple((events or {}).get(place, ())),
                )
            )
            if value == "unscored":
                continue
            scores.append(
                Score(
                    question_id=question.id,
                    epoch=epoch,
                    scorer=scorer,
                    value=value,
                    answer_status=(answer_statuses or {}).get(place, "answered"),
                    prediction="A" if value else "B",
                )
            )
    attempts = [
        msgspec.structs.replace(attempt, cost_paid=attempt.cost_uncached)
        if isinstance(cost_uncached, list)
        else attempt
        for attempt in attempts
    ]
    store.add_attempts(run, attempts, scores)
    return run
