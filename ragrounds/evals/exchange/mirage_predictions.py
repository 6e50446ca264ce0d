"""The MIRAGE authors' predictions as runs: their folder of per-question files, or one JSON-lines file of the replies.

The folder is ``prediction/DATASET/SETTING/MODEL…/{test,dev}_QID.json``, each file a list of replies. A line of the
other form is ``{"dataset", "id", "setting", "model", "raw": [reply, …]}``, plain or gzip.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.plan import fingerprint  # with it comes LangGraph, which no export needs
from ragrounds.evals.scorers import usual_scores
from ragrounds.evals.scorers.answer_status import FILTER, failure
from ragrounds.evals.scorers.robust import read_robustly
from ragrounds.evals.store.codec import compress, decompress
from ragrounds.evals.store.run_names import new_run_id
from ragrounds.evals.store.store import Store, now
from ragrounds.records import Attempt, Call, Called, Entered, Left, Question, Run, Score, Status
from ragrounds.specs import Spec
from ragrounds.text import fault

_SPLITS = ("test", "dev", "train", "validation")


class Prediction(Struct, frozen=True):
    """One question's replies under one setting."""

    dataset: str
    id: str
    setting: str
    model: str
    raw: list[str]
    """Replies in the order they were drawn; only the first counts. Empty: the call failed."""


class ImportedRun(Struct, frozen=True):
    """One run made of predictions, with its attempts."""

    run: Run
    attempts: tuple[Attempt, ...]
    missing: int
    """Questions without a prediction: attempts that were not run."""


def read_predictions(path: Path) -> Iterator[Prediction]:
    """The predictions in a folder or file.

    Raises:
        UserError: nothing there, or a file that does not have one of the two forms; names the file and the line.
    """
    if path.is_dir():
        yield from _folder(path)
    elif path.is_file():
        yield from _lines(path)
    else:
        raise UserError(f"There is no file or folder {path}.")


def as_runs(predictions: Iterator[Prediction], benchmark: Benchmark, taken: list[str]) -> Iterator[ImportedRun]:
    """One run for each setting and model in the predictions, all of which are read and checked before the first.

    Raises:
        UserError: a prediction for a question that the benchmark lacks, two for the same question, or none at all.
    """
    grouped: dict[tuple[str, str], dict[str, bytes]] = {}  # replies packed: of many files all are held
    for prediction in predictions:
        id = f"{prediction.dataset}/{prediction.id}"
        group = grouped.setdefault((prediction.setting, prediction.model), {})
        if id not in benchmark.golds:
            raise UserError(
                f"The prediction for {id!r} ({prediction.setting}) answers no question of {benchmark.name}. "
                "Is it the benchmark these predictions were made on?"
            )
        if id in group:
            raise UserError(f"There are two predictions for {id!r} under {prediction.setting}, {prediction.model}.")
        group[id] = compress(msgspec.msgpack.encode(prediction.raw))
    if not grouped:
        raise UserError("There is no prediction in what was given. Expected the authors' folder, or JSON lines.")
    named = list(taken)
    for setting, model in sorted(grouped):
        imported = _as_run(setting, model, grouped.pop((setting, model)), benchmark, named)
        named.append(imported.run.id)
        yield imported
        del imported  # one run at a time is in memory


def _as_run(setting: str, model: str, packed: dict[str, bytes], benchmark: Benchmark, taken: list[str]) -> ImportedRun:
    found = {id: msgspec.msgpack.decode(decompress(raw), type=list[str]) for id, raw in packed.items()}
    agent = str(Spec("mirage_predictions", {"setting": setting, "model": model}))
    identity = {
        "imported": "mirage-predictions",
        "setting": setting,
        "model": model,
        "benchmark": benchmark.name,
        "questions": benchmark.version,
        "content": fingerprint(dict(sorted(found.items()))),
        "epochs": 1,
    }
    print_ = fingerprint(identity)
    run = Run(
        id=new_run_id(f"{model}-{setting}".rpartition("/")[2], print_, taken),
        agent=agent,
        benchmark=benchmark.name,
        questions=benchmark.version,
        count=len(benchmark),
        epochs=1,
        fingerprint=print_,
        identity=identity,
        created=now(),
        origin="imported",
    )
    attempts = tuple(_attempt(run, question, found.get(question.id), model) for question in benchmark.questions)
    return ImportedRun(run, attempts, len(benchmark) - len(found))


def _attempt(run: Run, question: Question, replies: list[str] | None, model: str) -> Attempt:
    if replies is None:
        return Attempt(
            run=run.id,
            question_id=question.id,
            epoch=0,
            status="not_run",
            text="",
            reason="no prediction was given for this question",
            usage=None,
            cost_paid=None,
            cost_uncached=None,
        )
    text = replies[0] if replies else ""
    status, reason = _ended(text, question) if replies else ("failed", "the list of replies is empty")
    call = Call(key="", kind="model", role="answering", node="imported", actor=model, at=0.0, seconds=0.0)
    return Attempt(
        run=run.id,
        question_id=question.id,
        epoch=0,
        status=status,
        text=text,
        reason=reason,
        usage=None,
        cost_paid=None,
        cost_uncached=None,
        model_calls=1,
        events=(
            Entered(step=0, node="imported", at=0.0),
            Called(step=0, call=call),
            Left(step=0, seconds=0.0, changes={"answer": text} if replies else {}),
        ),
    )


def _ended(text: str, question: Question) -> tuple[Status, str]:
    """How the call of a recorded text ended, and why: some texts are errors, or a filter's notice, that were recorded
    in place of a reply. Nothing but the text says so, and a text that states an answer is none of them."""
    recorded = failure(text)
    if recorded is None or read_robustly(text, question) != recorded:
        return "completed", ""
    return ("blocked" if recorded.reason == FILTER else "failed"), f"{recorded.reason}: {' '.join(text.split())[:200]}"


def _lines(path: Path) -> Iterator[Prediction]:
    decoder = msgspec.json.Decoder(Prediction)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                number += 1
                if line.strip():
                    yield decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path}, line {number}: {fault(error)}. Expected JSON with dataset, id, setting, model and raw (a list)."
        ) from error
    except (OSError, EOFError) as error:
        raise UserError(f"{path}, after line {number}: {error}. Is the file complete?") from error


def _folder(root: Path) -> Iterator[Prediction]:
    base = root / "prediction" if (root / "prediction").is_dir() else root
    for file in sorted(base.rglob("*.json")):
        split, underscore, id = file.stem.partition("_")
        parts = file.relative_to(base).parts
        if not underscore or split not in _SPLITS or len(parts) < 4:
            continue
        try:
            raw = msgspec.json.decode(file.read_bytes(), type=list[str])
        except (msgspec.DecodeError, OSError, RecursionError) as error:
            raise UserError(f"{file}: {fault(error)}. Expected a list of replies.") from error
        yield Prediction(dataset=parts[0], id=id, setting=parts[1], model="/".join(parts[2:-1]), raw=raw)


def store_run(store: Store, imported: ImportedRun, benchmark: Benchmark) -> Run:
    """Write an imported run with its attempts, scored; the same content imported again is the same run."""
    run = store.latest(imported.run.fingerprint)
    if run is None:
        run = imported.run
        store.add_run(run, benchmark.questions, benchmark.golds)
    questions = {question.id: question for question in benchmark.questions}
    scores: list[Score] = []
    for attempt in imported.attempts:
        question = questions[attempt.question_id]
        scores += usual_scores(attempt, question, benchmark.golds[question.id])
    store.add_attempts(run, imported.attempts, scores)
    return run
