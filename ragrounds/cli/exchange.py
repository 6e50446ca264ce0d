"""`ragrounds export store` and `ragrounds import store`: runs move between stores, losing nothing.

`ragrounds export`: runs for other tools. Every form is asked for by name; nothing is sent without its own flag.

`ragrounds import`: outputs of other systems become runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ragrounds.evals.store.store import Store
    from ragrounds.records import Run


RUNS = typer.Argument(None, help="Runs: ids, beginnings of ids, or agents' texts. [default: all]")
JSON = typer.Option(False, "--json", help="What was moved, as JSON.")


def export_store(
    runs: list[str] = RUNS,
    to: str = typer.Option(..., "--to", "-o", help="A file (made where there is none) or a PostgreSQL URL."),
    as_json: bool = JSON,
) -> None:
    """Runs with all they rest on, into a portable file or another store.

    Attempts, scores, questions, recorded calls, judges' calls, and arenas in which only these runs played. There, a
    replay asks no model, and every table is the same. What is there already stays; moving twice adds nothing.

    Examples:

      ragrounds export store --to runs.ragrounds

      ragrounds export store direct_cot search_o1 --to postgresql://me@server/runs
    """
    from ragrounds.cli.common import open_store, settings
    from ragrounds.evals.store.database import open_target

    with open_store(settings()) as store, open_target(to) as engine:
        _move(store.engine, engine, runs, as_json)


def import_store(
    place: str = typer.Argument(metavar="FILE_OR_URL", help="A file of `export store`, a store.sqlite, or a URL."),
    runs: list[str] = RUNS,
    as_json: bool = JSON,
) -> None:
    """Runs of another store, with all they rest on. A file is checked whole before anything is written.

    Example: ragrounds import store runs.ragrounds
    """
    from ragrounds.cli.common import open_store, settings
    from ragrounds.evals.store.database import open_source

    with open_store(settings()) as store, open_source(place) as engine:
        _move(engine, store.engine, runs, as_json)


def _move(source: sa.Engine, target: sa.Engine, references: list[str] | None, as_json: bool) -> None:
    from ragrounds.cli.common import print_json, say
    from ragrounds.cli.progress import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.engine.plan import FINAL
    from ragrounds.evals.store.database import shown
    from ragrounds.evals.store.store import find_run
    from ragrounds.evals.store.transfer import copy_runs, read_runs
    from ragrounds.ui.text import safe

    known = read_runs(source)
    chosen = [find_run(known, reference, shown(source)) for reference in references or ()] or known
    chosen = list({run.id: run for run in chosen}.values())
    if not chosen:
        raise UserError(f"{shown(source)} holds no runs.")
    with counting() as tell:
        moved = copy_runs(source, target, chosen, FINAL, tell)
    for name in moved.runs:
        say(safe(name))
    for name in moved.present:
        say(f"{safe(name)} is there already, the same.")
    for name in moved.arenas:
        say(safe(name))
    say(f"{moved.calls:,} recorded calls and {moved.texts:,} texts are new there.")
    if moved.differing:
        say(
            f"{moved.differing:,} calls are recorded there with another reply, which was left: "
            "the moved runs' traces show that one, and their scores are as they were."
        )
    if as_json:
        print_json(moved)


export_app = typer.Typer(help="Runs written for other tools, or into another store.", no_args_is_help=True)
export_app.command("store")(export_store)
RUNS_export = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")
FORCE = typer.Option(False, "--force", help="Write over files that are there.")


@export_app.command("jsonl")
def export_jsonl(
    runs: list[str] = RUNS_export, out: Path = typer.Option(..., "--out", "-o", help="The file."), force: bool = FORCE
) -> None:
    """JSON Lines: an object an attempt with question, gold, scores, steps, requests and replies."""
    from ragrounds.evals.exchange.jsonl import json_lines

    with _opened(runs) as (store, found):
        _write(json_lines(store, found), out, force)


@export_app.command("parquet")
def export_parquet(
    runs: list[str] = RUNS_export, out: Path = typer.Option(..., "--out", "-o", help="The file."), force: bool = FORCE
) -> None:
    """Parquet: a row an attempt, scores as columns. Needs the extra `export`."""
    from ragrounds.api.files import made_beside
    from ragrounds.cli.common import say
    from ragrounds.evals.exchange.parquet import write_parquet

    with _opened(runs) as (store, found), made_beside(out, force) as path:
        rows = write_parquet(store, found, path)
    say(f"{out}: {rows:,} attempts")


@export_app.command("trec")
def export_trec(
    runs: list[str] = RUNS_export,
    out: Path = typer.Option(..., "--out", "-o", help="The folder."),
    search: str = typer.Option("all", help="Which searches of an attempt: first, last, or all in order."),
    passages: bool = typer.Option(False, "--passages", help="Ids of passages instead of documents."),
    force: bool = FORCE,
) -> None:
    """TREC runs of what agents searched, and judgements where gold documents are known."""
    from ragrounds.api.files import made_beside
    from ragrounds.cli.common import say
    from ragrounds.evals.exchange.trec import file_name, judgements, searched
    from ragrounds.evals.retrieval.trec import write_run

    with _opened(runs) as (store, found):
        ranked = [(run, searched(store, run, which=search, documents=not passages)) for run in found]
        _folder(out)
        taken: list[str] = []
        for run, ranking in ranked:
            taken.append(file_name(run, taken))
            with made_beside(out / taken[-1], force) as path:
                write_run(path, ranking, run.agent)
            say(f"{out / taken[-1]}: {sum(map(bool, ranking.values())):,} of {len(ranking):,} questions with results")
        lines = judgements(store.questions(found[0])[1])
        if lines and not passages:
            with made_beside(out / "qrels.txt", force) as path:
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            say(f"{out / 'qrels.txt'}: {len(lines):,} judgements")


@export_app.command("otel")
def export_otel(
    runs: list[str] = RUNS_export,
    out: Path = typer.Option(None, "--out", "-o", help="A file of OTLP/JSON lines."),
    endpoint: str = typer.Option(
        None, help="Or send to this OTLP/HTTP address, such as http://127.0.0.1:6006/v1/traces."
    ),
    header: list[str] = typer.Option([], help="NAME=VALUE sent along with --endpoint (repeatable)."),
    force: bool = FORCE,
) -> None:
    """OpenTelemetry spans with the OpenInference conventions (Phoenix, Langfuse). Needs the extra `export`.

    Only --endpoint sends anything anywhere.
    """
    from ragrounds.cli.common import say
    from ragrounds.errors import UserError
    from ragrounds.evals.exchange.otel import otlp_json, send

    if (out is None) == (endpoint is None):
        raise UserError("Give one of --out FILE and --endpoint URL.")
    headers = dict(_pair(text) for text in header)
    with _opened(runs) as (store, found):
        if endpoint:
            say(f"{send(store, found, endpoint, headers):,} spans sent to {endpoint}")
        else:
            _write(otlp_json(store, found), out, force)


@export_app.command("inspect")
def export_inspect(
    runs: list[str] = RUNS_export, out: Path = typer.Option(..., "--out", "-o", help="The folder."), force: bool = FORCE
) -> None:
    """Inspect's log format, one .eval file a run, for `inspect view`. Needs the extra `inspect`."""
    from ragrounds.api.files import made_beside
    from ragrounds.cli.common import say
    from ragrounds.evals.exchange.inspect_log import InspectWriter
    from ragrounds.evals.exchange.trec import file_name

    writer = InspectWriter()
    with _opened(runs) as (store, found):
        _folder(out)
        for run in found:
            target = out / file_name(run).replace(".run", ".eval")
            with made_beside(target, force) as path:
                count = writer.write(store, run, path)
            say(f"{target}: {count:,} samples")


@export_app.command("langsmith")
def export_langsmith(
    runs: list[str] = RUNS_export,
    upload: bool = typer.Option(False, "--upload", help="Really send them: questions, answers, passages leave here."),
    project: str = typer.Option("ragrounds", help="The project there."),
    url: str = typer.Option("https://api.smith.langchain.com", help="The server."),
) -> None:
    """Send traces to LangSmith. Needs --upload and the key in LANGSMITH_API_KEY."""
    import os

    from ragrounds.cli.common import say
    from ragrounds.errors import UserError
    from ragrounds.evals.exchange.langsmith import upload as send

    if not upload:
        raise UserError(f"This sends questions, answers and passages to {url}. Give --upload if you want that.")
    key = os.environ.get("LANGSMITH_API_KEY")
    if not key:
        raise UserError("LANGSMITH_API_KEY is not set: LangSmith needs a key.")
    with _opened(runs) as (store, found):
        say(f"{send(store, found, url=url, key=key, project=project):,} nodes sent to {project} at {url}")


@contextmanager
def _opened(references: list[str]) -> Iterator[tuple[Store, list[Run]]]:
    from ragrounds.cli.common import open_store, settings

    with open_store(settings()) as store:
        yield store, [store.run(reference) for reference in references]


def _write(parts: Iterable[bytes], out: Path, force: bool) -> None:
    from ragrounds.api.files import replaced
    from ragrounds.cli.common import say

    count = 0
    with replaced(out, force) as file:
        for part in parts:
            file.write(part)
            count += 1
    say(f"{out}: {count:,} lines, {out.stat().st_size / 1e6:.1f} MB")


def _folder(path: Path) -> None:
    from ragrounds.errors import UserError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {path}: {error.strerror}.") from error


def _pair(text: str) -> tuple[str, str]:
    from ragrounds.errors import UserError

    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UserError("--header must be NAME=VALUE.")
    return name.strip(), value.strip()


import_app = typer.Typer(help="Outputs of other systems, and runs of other stores.", no_args_is_help=True)
import_app.command("store")(import_store)


@import_app.callback()
def _group() -> None:
    """Outputs of other systems become runs, scored, compared and traced like our own; runs of other stores come with
    all that they rest on."""


@import_app.command("mirage-predictions")
def import_mirage_predictions(
    paths: list[Path] = typer.Argument(help="The authors' folder of per-question files, or JSON lines (.gz too)."),
    benchmark: str = typer.Option("mirage", help="The benchmark they answer: mirage, or mirage:PATH/benchmark.json."),
    as_json: bool = typer.Option(False, "--json", help="The table as JSON."),
) -> None:
    """Import the MIRAGE authors' predictions, score them, print the table.

    Example: ragrounds import mirage-predictions MIRAGE/prediction --benchmark mirage:MIRAGE/benchmark.json
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.benchmarks import load
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.exchange.mirage_predictions import as_runs, keep, read_predictions
    from ragrounds.ui.tables import print_comparison

    chosen = settings()
    loaded = load(benchmark, chosen.home)
    with open_store(chosen) as store:
        predictions = (prediction for path in paths for prediction in read_predictions(path))
        made = as_runs(predictions, loaded, [run.id for run in store.runs()])
        runs = [keep(store, imported, loaded) for imported in made]
        for imported, run in zip(made, runs, strict=True):
            missing = f", {imported.missing:,} questions without a prediction" if imported.missing else ""
            say(f"{run.id}: {len(imported.attempts) - imported.missing:,} predictions{missing}")
        comparison = compare(store, runs)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)
