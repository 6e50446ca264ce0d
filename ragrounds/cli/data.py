"""`ragrounds data`: benchmarks, their cards, registered copies, audits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragrounds.api.workspace import user_settings
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import file_bars, print_json, say

if TYPE_CHECKING:
    from ragrounds.evals.benchmarks.audit import Audit

app = typer.Typer()
data = typer.Typer(
    name="data", cls=ListGroup, help="Benchmarks and their copies here: list, show, fetch, add, verify, audit, remove."
)
app.add_typer(data)
app.add_typer(data, name="benchmarks", hidden=True)


@data.command("ls")
def list_benchmarks(as_json: options.AsJson = False) -> None:
    """List every dataset's card."""
    from rich.table import Table
    from rich.text import Text

    from ragrounds.evals.benchmarks import all_cards
    from ragrounds.ui.tables import results_console

    cards = sorted(all_cards(), key=lambda card: card.name)
    if as_json:
        print_json(cards, "benchmarks")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("name", "questions", "task", "language", "scorers", "licence"):
        table.add_column(name, justify="right" if name == "questions" else "left", overflow="fold")
    for card in cards:
        size = f"{card.size:,}" if card.size else "-"
        table.add_row(*map(Text, (card.name, size, card.task, card.language, ", ".join(card.scorers), card.license)))
    results_console().print(table)


@data.command("show")
def show_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset: mirage/pubmedqa.")],
    as_json: options.AsJson = False,
) -> None:
    """Show a card: source, licence, size, metric, scorers, paper table, and what cannot be had."""
    import msgspec

    from ragrounds.evals.benchmarks import known_card
    from ragrounds.ui.text import safe

    found = known_card(name, user_settings().home)
    if as_json:
        print_json({"benchmark": found})
        return
    for key, value in msgspec.to_builtins(found).items():
        text = ", ".join(value) if isinstance(value, list | tuple) else str(value or "")
        if text:
            typer.echo(f"{key:10} {safe(text)}")


@data.command("add")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset: mirage, r2med/biology, kqa.")],
    path: Annotated[Path, typer.Argument(help="The authors' file or folder, as it was published.")],
) -> None:
    """Register a local copy, so that the benchmark is found by name. It is read first; nothing broken is copied."""
    from ragrounds.evals.benchmarks import register

    added = register(name, path, user_settings().home)
    counts = ", ".join(f"{dataset} {count:,}" for dataset, count in added.counts.items())
    say(f"{added.name}: {len(added):,} questions ({counts}). Licence: {added.card.license}.")
    if added.name != name:
        say(f"It is found as {added.name}.")


@data.command("fetch")
def fetch_benchmark(
    name: Annotated[str, typer.Argument(help="A family or a dataset whose card lists files: mirage, pubmedqa, kqa.")],
) -> None:
    """Fetch a benchmark from its public home and register it. The licence is said first; every file is checked by size
    and SHA-256. A cut download is resumed by the same command.

    Example: ragrounds data fetch mirage
    """
    from ragrounds.evals.benchmarks import card
    from ragrounds.evals.benchmarks.download import fetch

    wanted = card(name)
    say(f"{wanted.name}: {wanted.title}. Licence: {wanted.license}. From {wanted.source}.")
    with file_bars() as progress:
        fetched = fetch(name, user_settings().home, progress)
    say(f"{fetched.name}: {len(fetched):,} questions are here. `ragrounds run --benchmark {name}` finds them.")


@data.command("rm")
def remove_benchmark(
    name: Annotated[str, typer.Argument(help="A registered copy: mirage, r2med/biology, beir/scifact.")],
    yes: options.Yes = False,
) -> None:
    """Remove a registered copy from this machine. Runs that were made on it stay."""
    from ragrounds.evals.benchmarks.registry import unregister
    from ragrounds.ui.text import safe

    if not yes:
        typer.confirm(f"Remove the copy of {safe(name)}?", abort=True, err=True)
    say(f"Removed {safe(str(unregister(name, user_settings().home)))}.")


@data.command("verify")
def verify_benchmark(
    reference: Annotated[str, typer.Argument(help="A benchmark: mirage, mirage:PATH/benchmark.json, …")],
    as_json: options.AsJson = False,
) -> None:
    """Read a benchmark whole and check its size and its files' hashes against the card. Exit code 1 where they
    differ."""
    from ragrounds.evals.benchmarks import verify
    from ragrounds.ui.text import one_line

    checked = verify(reference, user_settings().home)
    if as_json:
        print_json({"checked": checked})
    else:
        typer.echo(f"{one_line(checked.name)}: {checked.questions:,} questions, content version {checked.version[:16]}")
        words = {True: "as published", False: "differs from the published file", None: "not described by the card"}
        for file, same in checked.files.items():
            typer.echo(f"  {one_line(file)}: {words[same]}")
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
    reference: Annotated[str, typer.Argument(help="A benchmark: mirage:PATH/benchmark.json, sample, …")],
    corpus: Annotated[
        str | None, typer.Option(help="Also look for the questions and their sources in a corpus: beir:FOLDER.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find duplicates and near duplicates, option bias, lengths, and what a corpus holds of the questions."""
    from ragrounds.evals.benchmarks import load
    from ragrounds.evals.benchmarks.audit import audit
    from ragrounds.tools.corpora import corpus_source, passages

    found = load(reference, user_settings().home)
    documents = None
    if corpus is not None:
        documents = ((passage.document, passage.text) for passage, _ in passages(corpus_source(corpus)))
    audited = audit(found, documents)
    if as_json:
        print_json(audited)
    else:
        _print_audit(audited)


def _print_audit(audited: Audit) -> None:
    from collections import Counter

    typer.echo(f"{audited.benchmark}: {audited.questions:,} questions")
    places = Counter(" and ".join(twins.groups) for twins in audited.duplicates)
    typer.echo(f"questions that stand more than once: {len(audited.duplicates):,}")
    for place, count in places.most_common(10):
        typer.echo(f"  {count:4,} in {place}")
    conflicting = sum(twins.golds_differ for twins in audited.duplicates)
    typer.echo(f"  {conflicting:4,} of them with different right answers")
    typer.echo(f"near duplicates: {len(audited.near):,}")
    for found in audited.options:
        total = sum(found.letters.values()) or 1
        shares = ", ".join(f"{letter} {100 * count / total:.0f} %" for letter, count in found.letters.items())
        typer.echo(f"{found.dataset}: right letters {shares}; the longest is right in {100 * found.longest:.0f} %")
    for lengths in audited.lengths:
        other = f"; {len(lengths.other_language):,} in another script" if lengths.other_language else ""
        typer.echo(f"{lengths.dataset}: {lengths.shortest:,} to {lengths.longest:,} characters{other}")
    if audited.corpus is not None:
        held = audited.corpus
        typer.echo(
            f"corpus of {held.documents:,} documents: holds the source of {len(held.sources):,} questions, none of the "
            f"sources of {len(held.without_source):,}, and copies of {len(held.copies):,}"
        )
