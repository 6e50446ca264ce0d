"""`ragrounds data`: benchmarks and their copies here."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import msgspec
import typer

from ragrounds.api import data as benchmarks
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import counting, print_fields, print_json, say, tell
from ragrounds.ui.tables.benchmark_tables import audit_lines
from ragrounds.ui.tables.list_tables import benchmark_table
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import one_line, safe

app = typer.Typer()
data = typer.Typer(
    name="data", cls=ListGroup, help="Benchmarks and their copies here: list, show, fetch, add, verify, audit, remove."
)
app.add_typer(data)


@data.command("ls")
def list_benchmarks(as_json: options.AsJson = False) -> None:
    """List every dataset's card."""
    cards = benchmarks.list_cards()
    packages = [benchmarks.benchmark_package(card.name) for card in cards]
    if as_json:
        listed = [
            {**msgspec.to_builtins(card), "package": package} for card, package in zip(cards, packages, strict=True)
        ]
        print_json(listed, "benchmarks")
        return
    print_table(benchmark_table(zip(cards, packages, strict=True)), results_console())


@data.command("show")
def show_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset: mirage/pubmedqa.")],
    as_json: options.AsJson = False,
) -> None:
    """Show a card: source, licence, size, metric, scorers, paper table, and what cannot be had."""
    card = benchmarks.describe(name)
    if as_json:
        print_json({"benchmark": card})
        return
    print_fields(card)


@data.command("add")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset: mirage, r2med/biology, kqa.")],
    path: Annotated[Path, typer.Argument(help="The authors' file or folder, as it was published.")],
) -> None:
    """Register a local copy, so that the benchmark is found by name. It is read first; nothing broken is copied."""
    added = benchmarks.add(name, path)
    counts = ", ".join(f"{dataset} {count:,}" for dataset, count in added.counts.items())
    say(f"{added.name}: {len(added):,} questions ({counts}). Licence: {added.card.license}.")
    if added.name != name:
        say(f"Its name is {added.name}.")


@data.command("fetch")
def fetch_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset whose card lists files: mirage, pubmedqa, kqa.")],
) -> None:
    """Fetch a benchmark from its public home and register it. The licence is shown first; every file is checked by size
    and SHA-256. A cut download is resumed by the same command.

    Example: ragrounds data fetch mirage
    """
    with counting() as progress:
        fetched = benchmarks.fetch(name, progress=progress, message=say)
    say(f"{fetched.name}: {len(fetched):,} questions are ready. Use `ragrounds run --benchmark {quote(name)}`.")


@data.command("rm")
def remove_benchmark(
    name: Annotated[str, typer.Argument(help="A registered copy: mirage, r2med/biology, beir/scifact.")],
    yes: options.Yes = False,
) -> None:
    """Remove a registered copy from this machine. Runs that were made on it stay."""
    if not yes:
        typer.confirm(f"Remove the copy of {safe(name)}?", abort=True, err=True)
    say(f"Removed {safe(str(benchmarks.remove(name)))}.")


@data.command("verify")
def verify_benchmark(
    reference: Annotated[str, typer.Argument(help="A benchmark: mirage, mirage:PATH/benchmark.json, …")],
    as_json: options.AsJson = False,
) -> None:
    """Read a benchmark whole and check its size and its files' hashes against the card. Exit code 1 where they
    differ."""
    checked = benchmarks.verify(reference)
    if as_json:
        print_json({"checked": checked})
    else:
        tell(f"{one_line(checked.name)}: {checked.questions:,} questions, content version {checked.version[:16]}")
        words = {True: "as published", False: "differs from the published file", None: "not described by the card"}
        for file, same in checked.files.items():
            tell(f"  {one_line(file)}: {words[same]}")
    if checked.size_as_published is False:
        say(f"Differs: the card says {checked.size:,} questions.")
    differing = [file for file, same in checked.files.items() if same is False]
    if differing:
        say(f"Differs: the SHA-256 of {one_line(', '.join(differing), 400)} is not the card's.")
    elif checked.files and not any(checked.files.values()):
        say("The card names no hash of these files, so only the size was checked.")
    raise typer.Exit(1 if differing or checked.size_as_published is False else 0)


@data.command("audit")
def audit_benchmark(
    reference: Annotated[str, typer.Argument(help="A benchmark: mirage:PATH/benchmark.json, …; or a stored run.")],
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Also search for the questions and their sources in a corpus: beir:FOLDER, or an index's NAME."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find duplicates, option bias, replies that would not be read, and what a corpus holds of the questions. Of a run:
    doubled, missing and renumbered rows, blank answers, one letter too often, tokens that cannot be true."""
    if benchmarks.is_run(reference):
        findings = benchmarks.audit_run(reference)
        if as_json:
            print_json({"findings": findings})
        for finding in () if as_json else findings:
            tell(benchmarks.finding_line(finding))
        return
    audited = benchmarks.audit(reference, corpus)
    if as_json:
        print_json(audited)
    else:
        tell("\n".join(audit_lines(audited)))
