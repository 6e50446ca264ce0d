"""Many retrievers on many sets of queries in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from ragrounds.api.arguments import Arg, takes
from ragrounds.api.frames import MEASURES, QUERIES, Frame, Part
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.retrieve import (
    RetrievalArguments,
    RetrievalResult,
    Retrievers,
    SearchArguments,
    measure_rows,
    paths,
    query_rows,
    retrieve_set,
)
from ragrounds.api.workspace import chosen_settings, texts
from ragrounds.errors import UserError, nearest
from ragrounds.evals.retrieval.bench import BenchDifference, QueryDifference, compare_over_sets, largest_differences
from ragrounds.evals.retrieval.measures import canonical
from ragrounds.evals.retrieval.published import read_published, same_set
from ragrounds.evals.retrieval.query_sets import pool_set, query_set, usual_measures
from ragrounds.evals.retrieval.trec import read_tag
from ragrounds.settings import Settings
from ragrounds.ui.plot import PictureMaker
from ragrounds.ui.retrieval_pictures import ONE_RETRIEVER, bench_means, retrieval_differences
from ragrounds.ui.retrieval_tables import print_bench


class BenchRow(Struct, frozen=True, kw_only=True):
    """A retriever over all sets."""

    retriever: str
    values: Mapping[str, float | None]
    """Set → mean of the first measure; ``None``: not searched, or not published."""
    mean: float | None
    """Unweighted mean over sets; ``None``: a set is missing."""
    queries_per_second: float | None
    """Of all sets together; ``None``: not searched here."""
    published: bool = False
    """A mean of others: it has no tests."""


class RetrievalBench(Result, frozen=True, kw_only=True):
    """What came of :func:`retrieval_bench`."""

    measure: str
    sets: tuple[str, ...]
    rows: tuple[BenchRow, ...]
    comparisons: tuple[BenchDifference, ...]
    """Every pair of retrievers over the sets that both have."""
    differences: tuple[QueryDifference, ...]
    """Queries on which the two best differ the most."""
    by_set: Mapping[str, RetrievalResult]
    """Set → its own result, with every measure."""

    def draw(self, console: Console) -> None:
        """Print one table of retrievers and sets, the paired differences over all sets, and the queries that differ."""
        print_bench(self, console)

    def brief(self) -> str:
        """Each retriever with its mean."""
        shown = [f"{row.retriever} {row.mean:.4f}" for row in self.rows if row.mean is not None]
        return f"{', '.join(shown)} {self.measure} over {len(self.sets)} sets"

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The means of every set, and the paired differences over all sets."""
        rows = [(row.retriever, row.values, row.mean) for row in self.rows]
        return {
            "means": PictureMaker(partial(bench_means, self.measure, self.sets, rows), "the measure is no share"),
            "differences": PictureMaker(partial(retrieval_differences, self.comparisons), ONE_RETRIEVER),
        }

    def own_frames(self) -> tuple[Frame, ...]:
        """The measures, and the values of every query."""
        return (MEASURES, QUERIES)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A part for each set and retriever."""
        read = measure_rows if frame is MEASURES else query_rows
        yield (
            list(read(entry, result.measures, name)) for name, result in self.by_set.items() for entry in result.entries
        )

    def fields(self) -> dict[str, object]:
        """The bench as JSON has it: rows, comparisons, and each set's own entries without the values of queries."""
        own = {
            name: [{key: value for key, value in entry.items() if key != "per_query"} for entry in result.entries]
            for name, result in self.by_set.items()
        }
        held = {"measure": self.measure, "sets": self.sets, "rows": self.rows, "comparisons": self.comparisons}
        return {**held, "differences": self.differences, "by_set": own}


class BenchArguments(SearchArguments, frozen=True):
    """Which sets are searched, with what, and by which measures it is scored."""

    benchmarks: Annotated[
        Sequence[str], Arg("Queries and judgements, as of :func:`ragrounds.retrieve`, each with its own corpus.")
    ]
    retrievers: Retrievers = ()


@takes(BenchArguments)
def retrieval_bench(given: BenchArguments) -> RetrievalBench:
    """Search every set with every retriever; one table of means, and paired differences over all sets.

    A set counts as much as any other. What others published stands beside: TREC runs with the name of their set
    (``scifact=their.run``; runs of one tag are one row), and MTEB's result files, which name their sets themselves.

        rr.retrieval_bench(["beir:scifact", "beir:nfcorpus"], ["bm25", "bm25[b=0.4]"]).to_pandas()

    Raises:
        UserError: as :func:`ragrounds.retrieve`; a run of no set that is searched; or two sets of one name.
    """
    chosen, benchmarks = chosen_settings(given.settings, given.home), texts(given.benchmarks)
    names = [_set_name(benchmark) for benchmark in benchmarks]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise UserError(f"Two of the sets are called {twice[0]!r}: give folders of different names.")
    runs = _runs_by_set(paths(given.trec_runs), names)
    measured = tuple(canonical(name) for name in texts(given.measures) or usual_measures(benchmarks[0]))
    shared = {name: getattr(given, name) for name in SearchArguments.__struct_fields__}
    shared |= {"measures": measured, "differences": 0, "published": ()}
    by_set: dict[str, RetrievalResult] = {}
    with counted(given.progress) as tell:
        for name, benchmark in zip(names, benchmarks, strict=True):
            own = {
                "write_runs": Path(given.write_runs) / name if given.write_runs else None,
                "trec_runs": tuple(runs.get(name, ())),
            }
            request = RetrievalArguments(
                benchmark,
                tuple(dict.fromkeys(texts(given.retrievers))) or ("bm25",),
                per_query=True,
                **(shared | own),
            )

            def _telling(what: str, done: int, name: str = name) -> None:
                tell(f"{name}: {what}", done)

            by_set[name] = _tagged(retrieve_set(request, chosen, _telling), runs.get(name, ()))
    asked = zip(names, benchmarks, strict=True) if given.differences else ()
    queries = {name: _texts_of(benchmark, given.split, chosen) for name, benchmark in asked}
    rows = _published_rows(paths(given.published), measured[0], names, given.split, given.message)
    return _bench(by_set, queries, rows, given.differences, given.resamples, given.seed)


def _bench(
    by_set: Mapping[str, RetrievalResult],
    queries: Mapping[str, Mapping[str, str]],
    published: Sequence[BenchRow],
    differences: int,
    resamples: int,
    seed: int,
) -> RetrievalBench:
    measure = next(iter(by_set.values())).measures[0]
    values: dict[str, dict[str, Mapping[str, float]]] = {}
    seconds: dict[str, float] = {}
    searched: Counter[str] = Counter()
    for name, result in by_set.items():
        for entry in result.entries:
            label = entry["retriever"]
            values.setdefault(label, {})[name] = entry["per_query"][measure]
            if speed := entry.get("queries_per_second"):
                searched[label] += entry["queries"]
                seconds[label] = seconds.get(label, 0.0) + entry["queries"] / speed
    rows = []
    for label, had in values.items():
        means = {name: _mean(had[name]) if name in had else None for name in by_set}
        speed = searched[label] / seconds[label] if seconds.get(label) else None
        rows.append(BenchRow(retriever=label, values=means, mean=_over(means), queries_per_second=speed))
    ranked = sorted((row for row in rows if row.mean is not None), key=lambda row: -(row.mean or 0.0))[:2]
    apart: tuple[QueryDifference, ...] = ()
    if len(ranked) == 2:
        best, second = (values[row.retriever] for row in ranked)
        apart = largest_differences(best, second, queries, differences)
    return RetrievalBench(
        measure=measure,
        sets=tuple(by_set),
        rows=(*rows, *published),
        comparisons=tuple(compare_over_sets(values, measure, resamples=resamples, seed=seed)),
        differences=apart,
        by_set=by_set,
    )


def _published_rows(
    files: Sequence[Path], measure: str, names: Sequence[str], split: str, message: Callable[[str], None]
) -> list[BenchRow]:
    """A row for each model that MTEB's result files name; files of other sets are told.

    Raises:
        UserError: a file that cannot be read, or none of the sets that are searched.
    """
    found: dict[str, dict[str, float]] = {}
    tasks: set[str] = set()
    for path in files:
        for one in read_published(path, [measure], split=split):
            tasks.add(one.task)
            for name in names:
                if same_set(one.task, name) and measure in one.means:
                    found.setdefault(one.name, {})[name] = one.means[measure]
    if files and not found:
        had = ", ".join(sorted(tasks)) or f"nothing of the split {split!r}"
        raise UserError(f"The published results have {had}: expected {measure} of {', '.join(names)}.")
    if other := sorted(task for task in tasks if not any(same_set(task, name) for name in names)):
        shown, ours = ", ".join(other), ", ".join(names)
        message(f"Published results of {shown} were passed over: none of the sets {ours} is called so.")
    rows = []
    for model, means in found.items():
        all_sets = {name: means.get(name) for name in names}
        made = BenchRow(retriever=model, values=all_sets, mean=_over(all_sets), queries_per_second=None, published=True)
        rows.append(made)
    return rows


def _set_name(benchmark: str) -> str:
    """What a set is called in the table: its folder's name, or the last part of its own."""
    return benchmark.rstrip("/").replace(":", "/").rpartition("/")[2]


def _runs_by_set(files: Sequence[Path], names: Sequence[str]) -> dict[str, list[Path]]:
    made: dict[str, list[Path]] = {}
    for file in files:
        name, equals, path = str(file).partition("=")
        if not equals or name not in names:
            meant = nearest(name, names)
            raise UserError(
                f"Of several sets a run says whose it is: SET=FILE, not {str(file)!r}.{meant} The sets are "
                f"{', '.join(names)}."
            )
        made.setdefault(name, []).append(Path(path).expanduser())
    return made


def _tagged(result: RetrievalResult, files: Sequence[Path]) -> RetrievalResult:
    """The result with the runs of others under their tags, by which those of several sets are one retriever."""
    known = {file.name: tag for file in files if (tag := read_tag(file))}
    entries = tuple(
        {**entry, "retriever": known.get(entry["retriever"], entry["retriever"])} for entry in result.entries
    )
    if len({entry["retriever"] for entry in entries}) < len(entries):
        return result
    return replace(result, entries=entries)


def _texts_of(benchmark: str, split: str, settings: Settings) -> Mapping[str, str]:
    if benchmark.startswith("rerank:"):
        return pool_set(Path(benchmark.removeprefix("rerank:")).expanduser(), settings.home).queries
    return query_set(benchmark, split=split, home=settings.home).queries


def _mean(values: Mapping[str, float]) -> float | None:
    return sum(values.values()) / len(values) if values else None


def _over(means: Mapping[str, float | None]) -> float | None:
    had = [value for value in means.values() if value is not None]
    return sum(had) / len(had) if len(had) == len(means) and had else None
