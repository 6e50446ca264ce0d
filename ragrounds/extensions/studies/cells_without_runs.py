"""Cells of a study without a run: retrieval measures, correlations, speeds, label checks and arena ratings.

Means over queries; correlations of an embedder's cosines with graded sentence pairs (CMedTEB, Tables 2 and 11); its
speed on this machine (Figure 1 and Table 18); agreement of a model's grades with a set's labels (Table 20)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from ragrounds.api.data import corpus_texts
from ragrounds.base.errors import Interrupted, StopRun, UserError
from ragrounds.base.files import read_text
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.catalogue import located, parse_reference
from ragrounds.extensions.arena.functions import arena
from ragrounds.extensions.construction.functions import BuildExecution, build
from ragrounds.extensions.construction.requests import FalseNegatives
from ragrounds.extensions.retrieval.functions import retrieval_identity, retrieve
from ragrounds.extensions.retrieval.measures import canonical
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.studies.call import Arguments, CountingListener, StudyCall
from ragrounds.extensions.studies.figures import CellFigure, queries_figure
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.state import KeptCell
from ragrounds.extensions.studies.study import Settings, StudyCell
from ragrounds.tools.index.cards import named_embedder
from ragrounds.tools.retriever import spec_code

CellResults = Iterator[tuple[StudyCell, CellResult]]
CORRELATIONS = ("Pearson", "Spearman")
LABELS = ("labelled", "relevant", "false_positives", "false_negatives")
"""Measures of a set's labels, in documents a query among the first `depth` results.

Documents with a label, documents that a model's grades find relevant, and the documents where the two differ.
"""
_DEPTH = 50
SPEEDS = {"queries_per_second": "queries a second", "hours_per_million": "hours"}
"""Unit of each measure of speed: searches, and the encoding of a million documents, both on this machine."""
_TIMED_DOCUMENTS = 1000
"""Number of documents that are encoded to estimate the time for a million."""


def result_of_error(error: UserError) -> CellResult:
    """Return the result of a cell that met an error: failed if no further call can succeed, else missing a requirement.

    Raises:
        Interrupted: the error is one.
    """
    if isinstance(error, Interrupted):
        raise error
    return CellResult(state="failed" if isinstance(error, StopRun) else "lacks", why=str(error))


def measure_of(cell: StudyCell) -> str:
    """Return the measure that a retrieval cell shows, by the name that results use."""
    name = str(cell.settings.get("measure", "nDCG@10"))
    return name if name in (*CORRELATIONS, *LABELS, *SPEEDS) else canonical(name)


class FigureKind:
    """Kind of cells whose figures one call makes, by their measures.

    The call is made again if its identity has changed.
    """

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Return a digest of all that the figures depend on.

        An empty digest means that the dependencies are unknown; the figures are then computed again from recorded
        calls.

        Raises:
            UserError: something that they need is missing on this machine.
        """
        return ""

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Compute the figures, by measure.

        Raises:
            UserError: as `identity`.
        """
        raise NotImplementedError

    def carry_out(self, cells: Sequence[StudyCell], call: StudyCall) -> CellResults:
        """Yield the results of the cells of one call, reusing stored figures if nothing has changed."""
        settings, names = cells[0].settings, list(dict.fromkeys(map(measure_of, cells)))
        stored = [call.state.cells.get(cell.key) for cell in cells]
        try:
            identity = self.identity(settings, names, call)
            reusable = {
                entry.figure.measure: entry.figure
                for entry in stored
                if entry and entry.identity == identity and entry.figure
            }
            figures = reusable if identity and reusable.keys() >= set(names) else self.figures(settings, names, call)
        except UserError as error:
            result = result_of_error(error)
            yield from ((cell, result) for cell in cells)
            return
        for cell in cells:
            figure = figures[measure_of(cell)]
            call.state.cells[cell.key] = KeptCell(figure=figure, identity=identity)
            yield cell, CellResult(state="done", figure=figure)


class Searches(FigureKind):
    """Retrieval measures averaged over the queries of a set."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Return a digest of index, retriever with its code, queries, judgements and depth."""
        return retrieval_identity(_search(settings), measures, call.settings)

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Compute the figures of `ragrounds retrieve`."""
        entry = retrieve(
            **_search(settings),
            measures=measures,
            journal=call.how["journal"],
            progress=lambda phase, done: call.listener.attempts(done, done),
            message=call.listener.message,
            settings=call.settings,
        ).entries[-1]
        paid = entry.get("generation_cost_paid", 0.0)
        call.budget.add(paid, 0, paid)
        benchmark = str(settings["benchmark"])
        return {name: queries_figure(entry["per_query"][name], name, benchmark) for name in measures}


def _search(settings: Settings) -> Arguments:
    retrieve_arguments: Arguments = {
        "benchmark": str(settings["benchmark"]),
        "retrievers": [str(settings["retriever"])],
    }
    retrieve_arguments |= {
        name: settings[name] for name in ("corpus", "split", "model", "base_url", "alias") if name in settings
    }
    if "depth" in settings:
        retrieve_arguments["k"] = settings["depth"]
    if "query_generation" in settings:
        retrieve_arguments["query_generation"] = [str(settings["query_generation"])]
    return retrieve_arguments


class Similarity(FigureKind):
    """Correlations of one encoder's cosines with graded sentence pairs."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Return a digest of the pairs, the encoder and its code."""
        spec, pairs = parse(str(settings["retriever"])), located(_reference(settings), call.settings.home)
        return hashlib.sha256("\n".join((str(spec), spec_code(spec), read_text(pairs))).encode()).hexdigest()

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Compute both correlations, with their intervals."""
        pairs = located(_reference(settings), call.settings.home)
        (entry,) = retrieve(f"sts:{pairs}", str(settings["retriever"]), progress=False).entries
        figures = {}
        for name in CORRELATIONS:
            low, high = entry[f"{name}_interval"]
            figures[name] = CellFigure(value=entry[name], low=low, high=high, n=entry["pairs"], measure=name)
        return figures


def _reference(settings: Settings) -> Any:
    return parse_reference(str(settings["benchmark"]))


class Speed(FigureKind):
    """Speed of a retriever and its encoder on this machine, measured once for each of their versions."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Return a digest of the retriever with its code, and of the set it is timed on."""
        spec = parse(str(settings["retriever"]))
        identity_parts = (str(spec), spec_code(spec), str(settings["benchmark"]), str(settings.get("corpus", "")))
        return hashlib.sha256("\n".join(identity_parts).encode()).hexdigest()

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Time searching and encoding; a single timing has no interval."""
        timings = {}
        if "queries_per_second" in measures:
            entry = retrieve(**_search(settings), progress=False, settings=call.settings).entries[-1]
            timings["queries_per_second"] = (entry["queries_per_second"], entry["queries"])
        if "hours_per_million" in measures:
            home = call.settings.home
            corpus = str(settings.get("corpus") or query_set(str(settings["benchmark"]), home=home).corpus)
            texts = [(title, text) for _, title, text in islice(corpus_texts(corpus, home), _TIMED_DOCUMENTS)]
            embedder = named_embedder(str(settings["retriever"])).embedder
            embedder.documents(texts[:1])  # load and warm up the encoder before timing it
            began = time.perf_counter()
            embedder.documents(texts)
            elapsed = time.perf_counter() - began
            timings["hours_per_million"] = (elapsed / len(texts) * 1e6 / 3600, len(texts))
        return {
            name: CellFigure(value=value, n=n, unit=SPEEDS[name], measure=name) for name, (value, n) in timings.items()
        }


class Labels(FigureKind):
    """Check of a set's labels by `ragrounds build false-negatives`.

    A model grades the first `depth` documents of each query.
    """

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Compute the figures, in documents a query."""
        name = hashlib.sha256(repr(sorted(settings.items(), key=str)).encode()).hexdigest()[:16]
        request = FalseNegatives(
            benchmark=str(settings["benchmark"]),
            retriever=str(settings["retriever"]),
            split=str(settings.get("split", "test")),
            top_k=int(str(settings.get("depth", _DEPTH))),
            language=_reference(settings).parameters.get("language", "en"),  # which build() checks
            sheet_size=0,
        )
        model_arguments: Arguments = {
            key: str(settings[key]) for key in ("model", "base_url", "alias") if key in settings
        }
        execution = BuildExecution(
            settings=call.settings,
            out=call.settings.home / "studies" / "labels" / name,
            limit=int(str(settings["limit"])) if "limit" in settings else None,
            seed=int(str(settings.get("seed", 0))),
            **model_arguments,
            **{key: call.how[key] for key in ("journal", "concurrency", "server_changed")},
            **call.budget.left(),
        )
        listener = CountingListener(call.listener, call.budget)
        built = build(request, execution, listener)
        missing_labels = built.card.made.figures.get("missing")
        if not isinstance(missing_labels, dict):
            raise UserError("; ".join(built.card.made.notes) or built.ended or "No query has grades.")
        shared: Arguments = {
            "n": missing_labels["queries"],
            "missing": missing_labels["left_out"],
            "unit": "documents a query",
        }
        return {
            measure: CellFigure(**{name: missing_labels[measure][name] for name in ("value", "low", "high")}, **shared,
                                measure=measure)
            for measure in LABELS
        }  # fmt: skip


def figure_kind(cell: StudyCell) -> FigureKind:
    """Return the figure kind of a retrieval cell; it depends on the measure."""
    kinds: tuple[tuple[Collection[str], type[FigureKind]], ...] = (
        (CORRELATIONS, Similarity), (LABELS, Labels), (SPEEDS, Speed),
    )  # fmt: skip
    return next((kind for names, kind in kinds if measure_of(cell) in names), Searches)()


def rate(cells: Sequence[StudyCell], call: StudyCall) -> CellResults:
    """Rate the rows' runs against each other on each axis, once all of them are there."""
    names = {run: row for row, run in call.players.items()}
    # The server that was given for all models judges too, unless the study names one for its judge.
    server: Arguments = {key: cells[0].settings[key] for key in ("base_url", "alias") if key in cells[0].settings}
    axis_names = list(dict.fromkeys(str(cell.settings["axis"]) for cell in cells))
    rules: Arguments = {"axes": axis_names, **server, **call.study.arena}
    try:
        played = arena(
            list(names),
            **rules,
            **call.budget.left(),
            names=names,
            journal=call.how["journal"],
            progress=False,
            settings=call.settings,
        )
    except UserError as error:
        result = result_of_error(error)
        yield from ((cell, result) for cell in cells)
        return
    call.budget.add_calls(played.made, played.reused)
    axes = {axis.axis: axis for axis in played.report.axes}
    for cell in cells:
        axis, runs = axes.get(str(cell.settings["axis"])), (call.players[cell.row],)
        rows = axis.ratings.rows if axis and axis.ratings else ()
        rated = next((row for row in rows if row.system == cell.row), None)
        if axis is None or rated is None:
            call.state.cells[cell.key] = KeptCell(runs=runs)
            reason = (axis and axis.withheld) or "it has no matches"
            yield cell, CellResult(state="failed", why=f"no rating: {reason}", runs=runs)
            continue
        elo = axis.elo and axis.elo.by_system[rated.system]
        figure = (
            CellFigure(value=elo.rating, order_sd=elo.sd, unit="points", measure=axis.axis)
            if elo
            else CellFigure(value=rated.rating, low=rated.low, high=rated.high, unit="points", measure=axis.axis)
        )
        call.state.cells[cell.key] = KeptCell(runs=runs, figure=figure)
        yield cell, CellResult(state="done", figure=figure, runs=runs)
