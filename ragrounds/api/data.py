"""Benchmarks: their cards, and their local copies.

    from ragrounds.api import data

    data.add("mirage", "benchmark.json")
    data.audit("mirage").duplicates

`home` is the folder of the copies, `settings` all settings; by default the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ragrounds.api.workspace import Progress, RunsGiven, chosen_settings, open_selected_runs, open_store, unheard
from ragrounds.base.records import Gold, Question
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import (
    Benchmark,
    Card,
    VerifiedBenchmark,
    all_cards,
    benchmark_names,
    card,
    download,
    known_card,
    load,
    register,
)
from ragrounds.evals.benchmarks import verify as verify_files
from ragrounds.evals.benchmarks.audit import Audit
from ragrounds.evals.benchmarks.audit import audit as audit_benchmark
from ragrounds.evals.benchmarks.family import FAMILIES, installed_cards
from ragrounds.evals.benchmarks.registry import unregister
from ragrounds.evals.compare.question_values import answered_with
from ragrounds.evals.compare.run_audit import RunFinding, audit_runs
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.run_names import kept_names
from ragrounds.tools.corpora import corpora_of, corpus_source, is_source, passages
from ragrounds.tools.index.collection import open_named
from ragrounds.ui.text import one_line


def list_cards() -> list[Card]:
    """Return every dataset's card, by name: built-in ones, and those of installed packages."""
    return sorted((*all_cards(), *installed_cards()), key=lambda card: card.name)


def benchmark_package(name: str) -> str:
    """Return the package, with its version, that adds the family of a benchmark; empty if it is built in."""
    return FAMILIES.origin(name.partition("/")[0])


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> Card:
    """Return the card of a family or a dataset: source, licence, size, scorers, and missing parts.

    A registered copy with its own card is described by that card.

    Raises:
        UserError: the name is unknown; the message names the nearest.
    """
    return known_card(name, chosen_settings(settings, home).home)


def add(name: str, path: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> Benchmark:
    """Register a local copy of the authors' file or folder, so that the benchmark is found by name.

    The copy is read first, so that no broken file is registered.

    Returns:
        The benchmark that was read; it is registered under its name.

    Raises:
        UserError: the family is unknown, a file is broken, or the home folder cannot be written.
    """
    return register(name, Path(path), chosen_settings(settings, home).home)


def fetch(
    name: str,
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress = unheard,
    message: Callable[[str], None] = lambda text: None,
) -> Benchmark:
    """Download a benchmark from its public source and register it; every file is checked by size and SHA-256.

    The same call resumes an interrupted download.

    Args:
        name: a family or a dataset whose card lists files.
        progress: function that gets each file with its size, and the number of bytes that are downloaded.
        message: function that gets the licence and the source before the download.

    Raises:
        UserError: the card lists no files, the network failed, or a file differs from its description in the card.
    """
    dataset_card = card(name)
    message(f"{dataset_card.name}: {dataset_card.title}. Licence: {dataset_card.license}. From {dataset_card.source}.")
    home = chosen_settings(settings, home).home
    return download.fetch(name, home, lambda file, downloaded, size: progress(f"{file}, of {size:,} bytes", downloaded))


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> Path:
    """Remove a registered copy from this machine and return its folder. Runs on this benchmark stay.

    Raises:
        UserError: no copy has this name.
    """
    return unregister(name, chosen_settings(settings, home).home)


def verify(reference: str, *, home: str | Path | None = None, settings: Settings | None = None) -> VerifiedBenchmark:
    """Read a whole benchmark, and compare its size and its files' hashes with the card.

    Raises:
        UserError: the copy is missing or broken.
    """
    return verify_files(reference, chosen_settings(settings, home).home)


def audit(
    reference: str, corpus: str | None = None, *, home: str | Path | None = None, settings: Settings | None = None
) -> Audit:
    """Find duplicates, option bias, replies that could not be parsed, and questions whose source is in a corpus.

    Args:
        reference: a benchmark, such as ``mirage:PATH/benchmark.json`` or ``sample``.
        corpus: corpus to search for the questions and their sources: ``beir:FOLDER``, or the name of an index.

    Raises:
        UserError: the benchmark or the corpus is missing or cannot be read.
    """
    folder = chosen_settings(settings, home).home
    benchmark = load(reference, folder)
    documents = None if corpus is None else ((document, text) for document, _, text in corpus_texts(corpus, folder))
    return audit_benchmark(benchmark, documents, _read)


def is_run(reference: str, *, home: str | Path | None = None, settings: Settings | None = None) -> bool:
    """Return True if a text names a stored run, and no benchmark."""
    used_settings = chosen_settings(settings, home)
    if reference in benchmark_names() or ":" in reference:
        return False
    with open_store(used_settings) as store:
        run_names = kept_names(store.engine).values()
        return reference in run_names or any(
            run.id.startswith(reference) or run.agent == reference for run in store.runs()
        )


def audit_run(
    runs: RunsGiven, *, home: str | Path | None = None, settings: Settings | None = None
) -> tuple[RunFinding, ...]:
    """Find reasons to doubt the figures of runs.

    These are doubled, missing or renumbered rows, blank answers, one letter far too often, impossible token counts, and
    answers that are another run's. The result is empty if there is no reason.

    Raises:
        UserError: a run is unknown.
    """
    with open_selected_runs(runs, chosen_settings(settings, home)) as (store, opened):
        return tuple(audit_runs(store, opened))


def finding_line(finding: RunFinding) -> str:
    """Return a finding of a run's audit in a line."""
    return one_line(f"Audit: {f'{finding.run}: ' if finding.run else ''}{finding.text}.", 400)


def _read(question: Question, text: str) -> str:
    """Return the label that the headline's scorer reads in a reply."""
    value = answered_with(scorers_for(question)[0], question, Gold(question_id=question.id, answer=""), text)
    return value.prediction if value.answer_status == "answered" else ""


def corpus_texts(corpus: str, home: Path) -> Iterator[tuple[str, str, str]]:
    """Yield document id, title and text of every passage of a source or an index, or of several (``one+two``)."""
    for part in corpora_of(corpus):
        if is_source(part):
            yield from ((passage.document, passage.title, passage.text) for passage, _ in passages(corpus_source(part)))
        else:
            yield from ((document, title, text) for _, document, title, text in open_named(part, home).store.iterate())
