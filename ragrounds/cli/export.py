"""`ragrounds export`: runs for other tools. Every form is asked for by name; nothing is sent without its own flag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragrounds.cli.moving import export_store

if TYPE_CHECKING:
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Run

export_app = typer.Typer(help="Runs written for other tools, or into another store.", no_args_is_help=True)
export_app.command("store")(export_store)
RUNS = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")
FORCE = typer.Option(False, "--force", help="Write over files that are there.")


@export_app.command("jsonl")
def export_jsonl(
    runs: list[str] = RUNS, out: Path = typer.Option(..., "--out", "-o", help="The file."), force: bool = FORCE
) -> None:
    """JSON Lines: an object an attempt with question, gold, scores, steps, requests and replies."""
    from ragrounds.evals.exchange.jsonlines import json_lines

    with _opened(runs) as (store, found):
        _write(json_lines(store, found), out, force)


@export_app.command("parquet")
def export_parquet(
    runs: list[str] = RUNS, out: Path = typer.Option(..., "--out", "-o", help="The file."), force: bool = FORCE
) -> None:
    """Parquet: a row an attempt, scores as columns. Needs the extra `export`."""
    from ragrounds.cli.common import say
    from ragrounds.cli.writing import made_beside
    from ragrounds.evals.exchange.parquet import write_parquet

    with _opened(runs) as (store, found), made_beside(out, force) as path:
        rows = write_parquet(store, found, path)
    say(f"{out}: {rows:,} attempts")


@export_app.command("trec")
def export_trec(
    runs: list[str] = RUNS,
    out: Path = typer.Option(..., "--out", "-o", help="The folder."),
    search: str = typer.Option("all", help="Which searches of an attempt: first, last, or all in order."),
    passages: bool = typer.Option(False, "--passages", help="Ids of passages instead of documents."),
    force: bool = FORCE,
) -> None:
    """TREC runs of what agents searched, and judgements where gold documents are known."""
    from ragrounds.cli.common import say
    from ragrounds.cli.writing import made_beside
    from ragrounds.evals.exchange.trec_runs import file_name, judgements, searched
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
    runs: list[str] = RUNS,
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
    from ragrounds.evals.exchange.otlp import otlp_json, send

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
    runs: list[str] = RUNS, out: Path = typer.Option(..., "--out", "-o", help="The folder."), force: bool = FORCE
) -> None:
    """Inspect's log format, one .eval file a run, for `inspect view`. Needs the extra `inspect`."""
    from ragrounds.cli.common import say
    from ragrounds.cli.writing import made_beside
    from ragrounds.evals.exchange.inspect_log import InspectWriter
    from ragrounds.evals.exchange.trec_runs import file_name

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
    runs: list[str] = RUNS,
    upload: bool = typer.Option(False, "--upload", help="Really send them: questions, answers, passages leave here."),
    project: str = typer.Option("ragrounds", help="The project there."),
    url: str = typer.Option("https://api.smith.langchain.com", help="The server."),
) -> None:
    """Send traces to LangSmith. Needs --upload and the key in LANGSMITH_API_KEY."""
    import os

    from ragrounds.cli.common import say
    from ragrounds.errors import UserError
    from ragrounds.evals.exchange.langsmith_runs import upload as send

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
    from ragrounds.cli.common import say
    from ragrounds.cli.writing import replaced

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
