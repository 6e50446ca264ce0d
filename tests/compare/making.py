"""Stores with runs made up by hand, for the tests of comparisons and reports."""

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
    asked_by=None,
    model_calls=1,
    unanswered=0,
):
    """A run of the agent `name`: `right[question][epoch]`, or `right[question]` for one epoch, is the score; a value of
    ``...`` is an attempt that was not made, ``None`` a score without a value, "unscored" an answer nobody scored;
    `documents` names the gold documents of questions, by their places, `asked_by` the command."""
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
        asked=asked_by,
    )
    store.add_run(run, asked, golds)
    attempts, scores = [], []
    for place, (question, values) in enumerate(zip(asked, right, strict=True)):
        cost = cost_uncached[place] if isinstance(cost_uncached, list) else cost_uncached
        for epoch, value in enumerate(values if isinstance(values, list | tuple) else [values]):
            if value is ...:
                continue
            attempts.append(
                Attempt(
                    run=run.id,
                    question_id=question.id,
                    epoch=epoch,
                    status=(status or {}).get(place, "completed"),
                    text=(texts or {}).get(place, "The answer is A."),
                    usage=Usage(100 * (place + 1), 10) if usage is None else usage,
                    cost_paid=cost,
                    cost_uncached=cost,
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
    store.add_attempts(run, attempts, scores)
    return run


def add_scores(store, run, scorer, values):
    """Score a run by one more scorer: question id → value."""
    given = {"epoch": 0, "scorer": scorer, "answer_status": "answered"}
    store.add_scores(run, [Score(question_id=id, value=value, **given) for id, value in values.items()])


def add_runs(store, asked, **right):
    """Runs of these agents with these scores on the same questions."""
    return [add_run(store, name, asked, values) for name, values in right.items()]
