"""Noise of the servers: how much answers changed when the same last calls were made again.

An interval over questions contains this noise already, since it is a part of the variance of scores. It is a quantity
of its own only where the questions are fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from ragrounds.base.records import Attempt, Question, Run
from ragrounds.base.specs import parse
from ragrounds.evals.compare.figures import Figure, figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.options import server_of, starts_server


class ServerNoise(Struct, frozen=True, kw_only=True):
    """Changes between attempts of some runs and their repetitions."""

    runs: tuple[str, ...]
    texts: Figure
    """Share of attempts with another text."""
    scores: Figure | None = None
    """Share of attempts with another score under the first headline; ``None`` if none has two scores."""
    square: float = 0.0
    """Mean square of the change of the score: twice its variance within a question."""
    is_lower_bound: bool = False
    """True if attempts make several calls, of which only the last was made again."""


def server_noise(
    store: Store, runs: Sequence[Run], questions: Sequence[Question], scorer: str, seed: int
) -> tuple[ServerNoise, ...]:
    """Return the noise of the runs that have repetitions; runs with the same models are taken together.

    Args:
        store: store of the runs.
        runs: runs of a comparison.
        questions: questions of the comparison; others do not count.
        scorer: scorer whose scores are compared; empty for none.
        seed: seed of the intervals.
    """
    pairs: defaultdict[str, list[tuple[Run, Run]]] = defaultdict(list)
    for run in runs:
        if (repetition := store.repetition(run)) is not None:
            pairs[str(run.identity.get("models"))].append((run, repetition))
    measured = (_measure(store, same_models, questions, scorer, seed) for same_models in pairs.values())
    return tuple(noise for noise in measured if noise is not None)


def concurrency_note(runs: Sequence[Run]) -> str:
    """Return which runs on the same server were started with different numbers of attempts in flight; empty if none.

    A server may answer otherwise in larger batches, and no interval over questions contains such a shift.
    """
    by_model: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        options = dict(zip(run.asked.options[::2], run.asked.options[1::2], strict=False)) if run.asked else {}
        if "--concurrency" in options:
            for model in {server_of(str(text)) for text in run.identity.get("models", {}).values()}:
                if "server" in parse(model).parameters or starts_server(model):
                    by_model.setdefault(model, {}).setdefault(options["--concurrency"], []).append(run.id)
    differing = next((by_number for by_number in by_model.values() if len(by_number) > 1), {})
    started = "; ".join(f"{number} for {', '.join(ids)}" for number, ids in differing.items())
    return started and (
        f"Attempts in flight differ: {started}. Answers may depend on how many calls a server processes at once: "
        "`ragrounds doctor --model MODEL --concurrency N` counts those that do."
    )


def _measure(
    store: Store, pairs: Sequence[tuple[Run, Run]], questions: Sequence[Question], scorer: str, seed: int
) -> ServerNoise | None:
    texts: defaultdict[str, list[bool]] = defaultdict(list)
    differences: defaultdict[str, list[float]] = defaultdict(list)
    is_lower_bound = False
    for run, repetition in pairs:
        repeated = {attempt.key: attempt for attempt in store.attempts(repetition) if attempt.status == "completed"}
        scores = [{score.key: score.value for score in store.scores(part, scorer)} for part in (run, repetition)]
        for attempt in store.attempts(run, among=sorted({question_id for question_id, _ in repeated})):
            again = repeated.get(attempt.key)
            # An attempt without a new call says nothing: agents inside others answer from the journal.
            if again is None or _model_keys(attempt)[-1:] == _model_keys(again)[-1:]:
                continue
            texts[attempt.question_id].append(attempt.text != again.text)
            is_lower_bound |= attempt.model_calls > 1
            values = [by_key.get(attempt.key) for by_key in scores]
            if values[0] is not None and values[1] is not None:
                differences[attempt.question_id].append(values[1] - values[0])
    if not texts:
        return None

    def share(changes: Mapping[str, Sequence[float]]) -> Figure:
        shares = {question_id: fmean(map(bool, changed)) for question_id, changed in changes.items()}
        return figure([question for question in questions if question.id in shares], shares, {}, seed)

    return ServerNoise(
        runs=tuple(run.id for run, _ in pairs),
        texts=share(texts),
        scores=share(differences) if differences else None,
        square=fmean(fmean(x * x for x in by_question) for by_question in differences.values() or [[0.0]]),
        is_lower_bound=is_lower_bound,
    )


def _model_keys(attempt: Attempt) -> list[str]:
    return [call.key for call in calls(attempt.events) if call.kind == "model"]
