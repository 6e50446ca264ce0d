"""Cells of a study that no run stands behind: what a search finds of a whole set, and the arena's ratings.

Means over queries; how an embedder's cosines follow graded pairs of sentences (CMedTEB, Tables 2 and 11); how fast it
is here (its Figure 1 and Table 18); what a model's grades make of a set's labels (its Table 20)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from ragrounds.api.arena import arena
from ragrounds.api.data import corpus_texts
from ragrounds.api.retrieve import retrieval_identity, retrieve
from ragrounds.base.errors import Interrupted, StopRun, UserError
from ragrounds.base.files import read_text
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.catalogue import located, parse_reference
from ragrounds.evals.retrieval.measures import canonical
from ragrounds.evals.retrieval.query_sets import query_set
from ragrounds.extensions.construction.functions import BuildExecution, build
from ragrounds.extensions.construction.requests import FalseNegatives
from ragrounds.extensions.studies.call import Arguments, CountingListener, StudyCall
from ragrounds.extensions.studies.figures import CellFigure, queries_figure
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.state import KeptCell
from ragrounds.extensions.studies.study import Settings, StudyCell
from ragrounds.tools.index.cards import named_embedder
from ragrounds.tools.retriever import spec_code

Carried = Iterator[tuple[StudyCell, CellResult]]
CORRELATIONS = ("Pearson", "Spearman")
LABELS = ("labelled", "relevant", "false_positives", "false_negatives")
"""Documents a query, among the first `depth` that are found: those with a label, those that a model's grades find
relevant, and where the two differ."""
_DEPTH = 50
SPEEDS = {"queries_per_second": "queries a second", "hours_per_million": "hours"}
"""Measure → its unit: searches, and the encoding of a million documents, both as this machine makes them."""
_TIMED = 1000
"""Documents that are encoded to tell how long a million takes."""


def amiss(error: UserError) -> CellResult:
    """What a cell is that met an error: it failed where no further call can succeed, else it lacks something.

    Raises:
        Interrupted: the error is one.
    """
    if isinstance(error, Interrupted):
        raise error
    return CellResult(state="failed" if isinstance(error, StopRun) else "lacks", why=str(error))


def measure_of(cell: StudyCell) -> str:
    """The measure that a retrieval's cell shows, as results name it."""
    name = str(cell.settings.get("measure", "nDCG@10"))
    return name if name in (*CORRELATIONS, *LABELS, *SPEEDS) else canonical(name)


class FigureKind:
    """Cells whose figures one call makes, by their measures. It is made again where its identity changed."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """A digest of all that the figures depend on; empty: it cannot be told, and they are made from what was
        recorded.

        Raises:
            UserError: something that they need is not here.
        """
        return ""

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Measure → figure.

        Raises:
            UserError: as `identity`.
        """
        raise NotImplementedError

    def carry_out(self, cells: Sequence[StudyCell], call: StudyCall) -> Carried:
        """The cells of one call, with the figures that are kept where nothing changed."""
        settings, names = cells[0].settings, list(dict.fromkeys(map(measure_of, cells)))
        kept = [call.state.cells.get(cell.key) for cell in cells]
        try:
            identity = self.identity(settings, names, call)
            known = {one.figure.measure: one.figure for one in kept if one and one.identity == identity and one.figure}
            figures = known if identity and known.keys() >= set(names) else self.figures(settings, names, call)
        except UserError as error:
            result = amiss(error)
            yield from ((cell, result) for cell in cells)
            return
        for cell in cells:
            figure = figures[measure_of(cell)]
            call.state.cells[cell.key] = KeptCell(figure=figure, identity=identity)
            yield cell, CellResult(state="done", figure=figure)


class Searches(FigureKind):
    """Means over the queries of a set."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Of index, retriever with its code, queries, judgements, depth."""
        return retrieval_identity(_search(settings), measures, call.settings)

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """What `ragrounds retrieve` gives."""
        entry = retrieve(
            **_search(settings),
            measures=measures,
            journal=call.how["journal"],
            progress=lambda what, done: call.listener.attempts(done, done),
            message=call.listener.message,
            settings=call.settings,
        ).entries[-1]
        call.budget.add(entry.get("generation_cost_paid", 0.0), 0)
        benchmark = str(settings["benchmark"])
        return {name: queries_figure(entry["per_query"][name], name, benchmark) for name in measures}


def _search(settings: Settings) -> Arguments:
    given: Arguments = {"benchmark": str(settings["benchmark"]), "retrievers": [str(settings["retriever"])]}
    given |= {name: settings[name] for name in ("corpus", "split", "model", "base_url", "alias") if name in settings}
    if "depth" in settings:
        given["k"] = settings["depth"]
    if "query_generation" in settings:
        given["query_generation"] = [str(settings["query_generation"])]
    return given


class Similarity(FigureKind):
    """The correlations of one encoder's cosines with graded pairs."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Of the pairs, the encoder and its code."""
        spec, pairs = parse(str(settings["retriever"])), located(_reference(settings), call.settings.home)
        return hashlib.sha256("\n".join((str(spec), spec_code(spec), read_text(pairs))).encode()).hexdigest()

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Both correlations, with their intervals."""
        pairs = located(_reference(settings), call.settings.home)
        (entry,) = retrieve(f"sts:{pairs}", str(settings["retriever"]), progress=False).entries
        made = {}
        for name in CORRELATIONS:
            low, high = entry[f"{name}_interval"]
            made[name] = CellFigure(value=entry[name], low=low, high=high, n=entry["pairs"], measure=name)
        return made


def _reference(settings: Settings) -> Any:
    return parse_reference(str(settings["benchmark"]))


class Speed(FigureKind):
    """How fast a retriever and its encoder are on this machine; measured once for each of their versions."""

    def identity(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> str:
        """Of the retriever with its code, and of what it is timed on."""
        spec = parse(str(settings["retriever"]))
        told = (str(spec), spec_code(spec), str(settings["benchmark"]), str(settings.get("corpus", "")))
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Without an interval: one timing each."""
        made = {}
        if "queries_per_second" in measures:
            entry = retrieve(**_search(settings), progress=False, settings=call.settings).entries[-1]
            made["queries_per_second"] = (entry["queries_per_second"], entry["queries"])
        if "hours_per_million" in measures:
            home = call.settings.home
            corpus = str(settings.get("corpus") or query_set(str(settings["benchmark"]), home=home).corpus)
            texts = [(title, text) for _, title, text in islice(corpus_texts(corpus, home), _TIMED)]
            embedder = named_embedder(str(settings["retriever"])).embedder
            embedder.documents(texts[:1])  # loaded, and warm
            began = time.perf_counter()
            embedder.documents(texts)
            taken = time.perf_counter() - began
            made["hours_per_million"] = (taken / len(texts) * 1e6 / 3600, len(texts))
        return {
            name: CellFigure(value=value, n=n, unit=SPEEDS[name], measure=name) for name, (value, n) in made.items()
        }


class Labels(FigureKind):
    """What `ragrounds build false-negatives` finds of a set: a model grades the first `depth` documents of each
    query."""

    def figures(self, settings: Settings, measures: Sequence[str], call: StudyCall) -> dict[str, CellFigure]:
        """Documents a query."""
        name = hashlib.sha256(repr(sorted(settings.items(), key=str)).encode()).hexdigest()[:16]
        asked = FalseNegatives(
            benchmark=str(settings["benchmark"]),
            retriever=str(settings["retriever"]),
            split=str(settings.get("split", "test")),
            top_k=int(str(settings.get("depth", _DEPTH))),
            language=_reference(settings).parameters.get("language", "en"),  # which build() checks
            sheet_size=0,
        )
        own: Arguments = {key: str(settings[key]) for key in ("model", "base_url", "alias") if key in settings}
        execution = BuildExecution(
            out=call.settings.home / "studies" / "labels" / name,
            limit=int(str(settings["limit"])) if "limit" in settings else None,
            seed=int(str(settings.get("seed", 0))),
            **own,
            **{key: call.how[key] for key in ("journal", "concurrency", "server_changed")},
            **call.budget.left(),
        )
        heard = CountingListener(call.listener, call.budget)
        built = build(asked, execution, heard, settings=call.settings)
        found = built.card.made.figures.get("missing")
        if not isinstance(found, dict):
            raise UserError("; ".join(built.card.made.notes) or built.ended or "No query has grades.")
        shared: Arguments = {"n": found["queries"], "missing": found["left_out"], "unit": "documents a query"}
        return {
            measure: CellFigure(**{end: found[measure][end] for end in ("value", "low", "high")}, **shared,
                                measure=measure)
            for measure in LABELS
        }  # fmt: skip


def figure_kind(cell: StudyCell) -> FigureKind:
    """What makes the figure of a retrieval's cell: it follows from the measure."""
    kinds: tuple[tuple[Collection[str], type[FigureKind]], ...] = (
        (CORRELATIONS, Similarity), (LABELS, Labels), (SPEEDS, Speed),
    )  # fmt: skip
    return next((kind for names, kind in kinds if measure_of(cell) in names), Searches)()


def rate(cells: Sequence[StudyCell], call: StudyCall) -> Carried:
    """Play the rows' runs against each other, once all of them are there, and give each axis its ratings."""
    names, left = {run: row for row, run in call.players.items()}, call.budget.left()
    try:
        played = arena(
            list(names),
            **{"axes": list(dict.fromkeys(str(cell.settings["axis"]) for cell in cells)), **call.study.arena},
            names=names,
            journal=call.how["journal"],
            max_cost=left["max_cost"],
            max_time=left["max_time"],
            progress=False,
            settings=call.settings,
        )
    except UserError as error:
        result = amiss(error)
        yield from ((cell, result) for cell in cells)
        return
    call.made += played.made
    call.reused += played.reused
    axes = {axis.axis: axis for axis in played.report.axes}
    for cell in cells:
        axis, runs = axes.get(str(cell.settings["axis"])), (call.players[cell.row],)
        rows = axis.ratings.rows if axis and axis.ratings else ()
        rated = next((row for row in rows if row.system == cell.row), None)
        if axis is None or rated is None:
            call.state.cells[cell.key] = KeptCell(runs=runs)
            why = (axis and axis.withheld) or "it has no matches"
            yield cell, CellResult(state="failed", why=f"no rating: {why}", runs=runs)
            continue
        figure = CellFigure(value=rated.rating, low=rated.low, high=rated.high, unit="points", measure=axis.axis)
        call.state.cells[cell.key] = KeptCell(runs=runs, figure=figure)
        yield cell, CellResult(state="done", figure=figure, runs=runs)
