"""The first half of building a lexical index: reading passages and counting their terms, run by run.

A run is a row of passages whose postings fit into memory. It is a folder, which appears whole:

* ``hashes.u64`` — its terms' hashes, ascending; ``terms.bin`` and ``term_sizes.u16`` — their texts in that order;
* ``sizes.u32`` — how many passages hold each; ``passages.u32`` and ``counts.i32`` — which, counted from the run's
  first, ascending, and how often;
* ``lengths.u32`` — the number of terms of each passage, repetitions included.

:func:`count_runs` works in this process, or, if it is faster, in one process for each core. Those are started as
``python -m ragrounds.tools.index.bm25_term_counts`` for a range of passages, and say line by line how many more they
have read. They end with the process that started them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import numpy as np
import numpy.typing as npt

from ragrounds.tools.index.analysers import Analyser, LuceneEnglish, analyser, words
from ragrounds.tools.index.bm25_vocabulary import term_hash
from ragrounds.tools.index.collection import PassageStore

RUN_TOKENS = 10_000_000
"""Number of terms, repetitions included, at which a run ends. Counting a run of this size takes about 400 MB."""
BATCH = 2_000
"""Number of passages that are read before their terms are stored in an array."""
PARALLEL = 100_000
"""Number of passages from which several processes are worth their start."""
Span = tuple[int, int]
"""First passage, and the position after the last."""


class _Numbers(dict[str, int]):
    """Mapping from term to its number, in the order of first appearance."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class _TermNumbers(dict[str, int]):
    """Mapping from word to the number of its term; -1 if it has no term."""

    def __init__(self, numbers: _Numbers, term: Callable[[str], str | None]) -> None:
        super().__init__()
        self._numbers = numbers
        self._term = term

    def __missing__(self, word: str) -> int:
        term = self._term(word)
        number = self[word] = -1 if term is None else self._numbers[term]
        return number


class RunCounter:
    """Counter of the terms in the passages of one store."""

    def __init__(self, store: PassageStore, folder: Path, analyse: Analyser) -> None:
        self._store = store
        self._folder = folder
        self._analyse = analyse

    def count(self, span: Span, progress: Callable[[int], None]) -> None:
        """Write the runs of a range of passages.

        `progress` is called now and then with the number of further passages read.
        """
        position, end = span
        while position < end:
            position = self._count_run(position, end, progress)

    def _count_run(self, first: int, end: int, progress: Callable[[int], None]) -> int:
        """Write one run and return the position where it ends."""
        numbers = _Numbers()
        tokenise = self._analyse
        look_up = numbers.__getitem__
        if isinstance(tokenise, LuceneEnglish):  # each word is analysed once; a repeated word costs one look-up
            tokenise, look_up = words, _TermNumbers(numbers, cast("LuceneEnglish", tokenise).term).__getitem__
        batches: list[npt.NDArray[np.int32]] = []
        sizes: list[int] = []
        start = first
        tokens = 0
        while start < end and tokens < RUN_TOKENS:
            batch: list[int] = []
            behind = min(start + BATCH, end)
            for position in range(start, behind):
                _, _, title, text = self._store.raw(position)
                before = len(batch)
                batch.extend(map(look_up, tokenise(f"{title}\n{text}")))
                sizes.append(len(batch) - before)
            batches.append(np.array(batch, dtype=np.int32))
            tokens += len(batch)
            progress(behind - start)
            start = behind
        self._write_run(first, numbers, np.concatenate(batches), np.array(sizes, dtype=np.int64))
        return start

    def _write_run(
        self, first: int, numbers: _Numbers, terms: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64]
    ) -> None:
        """Sort a run's occurrences into columns and write them."""
        hashes = np.fromiter(map(term_hash, numbers), dtype=np.uint64, count=len(numbers))
        order = np.argsort(hashes, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        passages = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        has_term = terms >= 0
        if not has_term.all():
            terms, passages = terms[has_term], passages[has_term]
        # One number for each occurrence, term in the upper half, passage in the lower: sorted, these are columns.
        keys = rank[terms]
        keys <<= 32
        keys |= passages
        lengths = np.bincount(passages, minlength=len(sizes)).astype(np.uint32)
        del passages, terms
        keys.sort()
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(keys), 1), bool), keys[1:] != keys[:-1]]))
        counts = np.diff(starts, append=len(keys)).astype(np.int32)
        keys = keys[starts]
        texts = [text.encode("utf-8", "surrogatepass") for text in numbers]
        part = self._folder / f"part-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        hashes[order].tofile(part / "hashes.u64")
        (part / "terms.bin").write_bytes(b"".join(texts[index] for index in order.tolist()))
        np.array(list(map(len, texts)), dtype=np.uint16)[order].tofile(part / "term_sizes.u16")
        np.bincount(keys >> 32, minlength=len(order)).astype(np.uint32).tofile(part / "sizes.u32")
        (keys & 0xFFFFFFFF).astype(np.uint32).tofile(part / "passages.u32")
        counts.tofile(part / "counts.i32")
        lengths.tofile(part / "lengths.u32")
        # The run appears whole: a build that was killed before this line leaves only a `part-*` folder.
        part.rename(self._folder / f"run-{first:010}-{first + len(sizes):010}")


def runs(folder: Path) -> list[tuple[Span, Path]]:
    """Return the complete runs with their folders, in the order of their passages."""
    names = [(path.name.split("-"), path) for path in folder.glob("run-*")]
    return sorted(((int(parts[1]), int(parts[2])), path) for parts, path in names)


def _uncounted_spans(folder: Path, total: int, longest: int) -> Iterator[Span]:
    """Yield ranges of at most `longest` passages that are in no run."""
    position = 0
    for start, end in [*(span for span, _ in runs(folder)), (total, total)]:
        while position < start:
            yield position, min(position + longest, start)
            position = min(position + longest, start)
        position = end


def count_runs(
    store: PassageStore, folder: Path, name: str, limit: int, progress: Callable[[int], None], processes: int
) -> None:
    """Count all passages that are not counted yet.

    Args:
        store: The passages.
        folder: Where the runs are written.
        name: Name of the analyser.
        limit: The most passages of one run.
        progress: Called now and then with how many passages are counted.
        processes: Number of processes; with 1 this process does the work.

    Raises:
        OSError: a run could not be written, or a process ended without having done its work.
    """
    total = len(store)
    spans = list(_uncounted_spans(folder, total, limit))
    done = total - sum(end - start for start, end in spans)

    def report_progress(more: int) -> None:
        """Add further passages to the count and report the sum."""
        nonlocal done
        done += more
        progress(done)

    if processes == 1 or total < PARALLEL:
        counter = RunCounter(store, folder, analyser(name))
        for span in spans:
            counter.count(span, report_progress)
        return
    queue: SimpleQueue[int] = SimpleQueue()
    children: set[subprocess.Popen[bytes]] = set()
    command = (sys.executable, "-m", __name__, str(os.getpid()), str(store.folder), str(total), str(folder), name)
    with ThreadPoolExecutor(min(processes, len(spans)) or 1) as threads:
        waiting = {threads.submit(_count_in_child, [*command, *map(str, span)], children, queue.put) for span in spans}
        try:
            while waiting:
                ended, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                while not queue.empty():
                    report_progress(queue.get())
                for future in ended:
                    future.result()
        finally:
            for future in waiting:
                future.cancel()
            for child in list(children):
                child.kill()


def _count_in_child(command: list[str], children: set[subprocess.Popen[bytes]], report: Callable[[int], None]) -> None:
    """Count a range in a child process, which is in `children` as long as it runs."""
    package = Path(__file__).parents[3]  # the process takes the same ragrounds as this one
    paths = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(  # noqa: S603 - this package, by the interpreter that runs it
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    ) as child:
        children.add(child)
        problem = ""
        for line in child.stdout or ():
            if line.strip().isdigit():
                report(int(line))
            else:
                problem = line.decode("utf-8", "replace").strip()
    children.discard(child)
    if child.returncode:
        message = problem or f"it ended with status {child.returncode}"
        raise OSError(f"counting in another process failed: {message}")


def _count_range(parent: int, store: str, total: int, folder: str, name: str, first: int, last: int) -> None:
    """Count one range in this child process and print its progress."""

    def write_line(message: object) -> None:
        """Write one line, or exit if the parent process is dead."""
        if os.getppid() != parent:  # another parent: the process that started this one is dead
            sys.exit(1)
        sys.stdout.write(f"{message}\n")
        sys.stdout.flush()

    try:
        RunCounter(PassageStore(Path(store), total), Path(folder), analyser(name)).count((first, last), write_line)
    except OSError as problem:
        write_line(problem)
        sys.exit(1)


if __name__ == "__main__":
    owner, place, passages, runs_at, analysed, *ends = sys.argv[1:]
    _count_range(int(owner), place, int(passages), runs_at, analysed, *map(int, ends))
