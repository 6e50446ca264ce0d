"""Benchmarks: their cards, and the copies of them that are here.

    from ragrounds.api import data

    data.add("mirage", "benchmark.json")
    data.audit("mirage").duplicates

`home` is the folder of the copies, `settings` all settings; ``None``: the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ragrounds.api.workspace import Progress, RunsGiven, chosen_settings, open_store, opened_runs, unheard
from ragrounds.base.records import Gold, Question
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import (
    Benchmark,
    Card,
    VerifiedBenchmark,
    all_cards,
    card,
    download,
    known,
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
    """Every dataset's card, by name: those that ship, and those of installed packages."""
    return sorted((*all_cards(), *installed_cards()), key=lambda card: card.name)


def benchmark_package(name: str) -> str:
    """The package, with its version, that adds the family of a benchmark; empty: it ships."""
    return FAMILIES.origin(name.partition("/")[0])


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> Card:
    """The card of a family or a dataset: source, licence, size, scorers, and what cannot be had. A registered copy that
    brings its own card is described by that.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    return known_card(name, chosen_settings(settings, home).home)


def add(name: str, path: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> Benchmark:
    """Register a local copy of the authors' file or folder, so that the benchmark is found by name. It is read first;
    nothing broken is copied.

    Returns:
        What was read; its name is the one that it is found by.

    Raises:
        UserError: an unknown family, a broken file, or a home folder that cannot be written.
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
    """Fetch a benchmark from its public home and register it; every file is checked by size and SHA-256. A cut
    download is resumed by the same call.

    Args:
        name: a family or a dataset whose card lists files.
        progress: gets each file with its size, and the bytes of it that are here.
        message: gets the licence and the source before anything is asked of them.

    Raises:
        UserError: the card lists no files, the network failed, or a file is not the one that the card describes.
    """
    wanted = card(name)
    message(f"{wanted.name}: {wanted.title}. Licence: {wanted.license}. From {wanted.source}.")
    home = chosen_settings(settings, home).home
    return download.fetch(name, home, lambda file, here, size: progress(f"{file}, of {size:,} bytes", here))


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> Path:
    """Remove a registered copy from this machine; gives the folder that it was in. Runs that were made on it stay.

    Raises:
        UserError: there is no copy of that name.
    """
    return unregister(name, chosen_settings(settings, home).home)


def verify(reference: str, *, home: str | Path | None = None, settings: Settings | None = None) -> VerifiedBenchmark:
    """Read a benchmark whole, and compare its size and its files' hashes with the card.

    Raises:
        UserError: there is no copy, or it is broken.
    """
    return verify_files(reference, chosen_settings(settings, home).home)


def audit(
    reference: str, corpus: str | None = None, *, home: str | Path | None = None, settings: Settings | None = None
) -> Audit:
    """Find duplicates, option bias, replies that would not be read, and what a corpus holds of the questions.

    Args:
        reference: a benchmark, such as ``mirage:PATH/benchmark.json`` or ``sample``.
        corpus: also look for the questions and their sources in this one: ``beir:FOLDER``, or the name of an index.

    Raises:
        UserError: a benchmark or a corpus that is not there or cannot be read.
    """
    folder = chosen_settings(settings, home).home
    found = load(reference, folder)
    documents = None if corpus is None else ((document, text) for document, _, text in corpus_texts(corpus, folder))
    return audit_benchmark(found, documents, _read)


def is_run(reference: str, *, home: str | Path | None = None, settings: Settings | None = None) -> bool:
    """Whether a text names a stored run, and no benchmark."""
    chosen = chosen_settings(settings, home)
    if reference in known() or ":" in reference:
        return False
    with open_store(chosen) as store:
        called = kept_names(store.engine).values()
        return reference in called or any(
            run.id.startswith(reference) or run.agent == reference for run in store.runs()
        )


def audit_run(
    runs: RunsGiven, *, home: str | Path | None = None, settings: Settings | None = None
) -> tuple[RunFinding, ...]:
    """What makes the figures of runs doubtful: doubled, missing or renumbered rows, blank answers, one letter far too
    often, tokens that cannot be true, answers that are another run's. Nothing is found where there is nothing.

    Raises:
        UserError: an unknown run.
    """
    with opened_runs(runs, chosen_settings(settings, home)) as (store, found):
        return tuple(audit_runs(store, found))


def finding_line(finding: RunFinding) -> str:
    """What the audit of a run found, in a line."""
    return one_line(f"Audit: {f'{finding.run}: ' if finding.run else ''}{finding.text}.", 400)


def _read(question: Question, text: str) -> str:
    """The label that the headline's scorer reads in a reply."""
    read = answered_with(scorers_for(question)[0], question, Gold(question_id=question.id, answer=""), text)
    return read.prediction if read.answer_status == "answered" else ""


def corpus_texts(corpus: str, home: Path) -> Iterator[tuple[str, str, str]]:
    """Document id, title and text of every passage of a source or an index, or of several (``one+two``)."""
    for part in corpora_of(corpus):
        if is_source(part):
            yield from ((one.document, one.title, one.text) for one, _ in passages(corpus_source(part)))
        else:
            yield from ((document, title, text) for _, document, title, text in open_named(part, home).store.each())
