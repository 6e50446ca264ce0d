"""The pipelines that make benchmarks, each a request with what it works on, for :func:`ragrounds.api.build.build`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ragrounds.api.build import BuildExecution, PreparedBuild
from ragrounds.api.run import RunListener
from ragrounds.api.workspace import one_of
from ragrounds.build.case_reports import ReportFilters, open_reports, report_items
from ragrounds.build.committee import Committee, open_committee
from ragrounds.build.false_negative_estimate import read_bands
from ragrounds.build.items import draw_items
from ragrounds.errors import UserError
from ragrounds.evals.benchmarks import load
from ragrounds.evals.judges.attempts import judges_itself
from ragrounds.evals.retrieval.query_sets import query_set
from ragrounds.settings import Settings
from ragrounds.specs import parse
from ragrounds.tools.retriever import open_searcher
from ragrounds.ui.text import safe

if TYPE_CHECKING:
    from ragrounds.build.judged_sets import Corpus


class CaseQuestions(Struct, frozen=True, kw_only=True):
    """Long-form questions from case reports, as OGCaReBench was made (Section 3.1)."""

    reports: str
    """``files:FOLDER`` (PMC NXML, text), ``beir:FOLDER``, ``jsonl:FILE``, or a path."""
    rewriter: str | None = None
    """The model that rewrites; ``None``: the execution's."""
    checker: str | None = None
    """The model that checks the rewritten questions; ``None``: the execution's."""
    table: Path | None = None
    """CSV or JSON Lines by id: year, citations, other_citations, type, specialty, language."""
    after: int | None = None
    """Only reports published after this year."""
    max_citations: int | None = None
    """Only reports that no more articles cite."""
    max_other_citations: int | None = None
    """The same for articles that are no case reports."""
    types: Sequence[str] = ()
    """Only articles of these types."""
    min_words: int = 0
    ratings: Path | None = None
    """The sheet with the experts' ratings."""
    experts: int = 1
    """Columns for experts in the sheet that is written."""
    min_rating: int = 4
    """What every rating of a kept pair must reach, from 1 to 5."""
    license: str = "not known"

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the reports, and draw from those that pass the filters.

        Raises:
            UserError: no such reports, a broken table, or nothing passes.
        """
        from ragrounds.build.case_benchmark import CaseBenchmark, ExpertRating
        from ragrounds.build.case_questions import PIPELINE

        found = open_reports(self.reports, self.table)
        filters = ReportFilters(
            after=self.after,
            max_citations=self.max_citations,
            max_other_citations=self.max_other_citations,
            types=tuple(self.types),
            least_words=self.min_words,
        )
        strangers: list[str] = []
        items = report_items(
            found,
            filters,
            limit=execution.limit,
            seed=execution.seed,
            progress=lambda count: listener.reading(f"reading {found.name}", count),
            strangers=strangers,
        )
        if strangers:
            such = ", ".join(safe(id, 40) for id in strangers[:3])
            listener.message(
                f"{len(strangers):,} of {len(found.table):,} ids in {self.table} match no report, such as {such}."
            )
        listener.message(
            f"{found.name}: {items.read:,} reports, {items.passed:,} pass the filters, {len(items.items):,} are drawn."
        )
        writer = execution.model or settings.model or ""
        finish = CaseBenchmark(
            item_set=items,
            reports=found,
            out=execution.out,
            rating=ExpertRating(sheet=self.ratings, raters=self.experts, least=self.min_rating),
            license=self.license,
            filters=filters,
            checks_itself=judges_itself(self.checker or writer, [self.rewriter or writer]),
        )
        models = _named(rewriting=self.rewriter, checking=self.checker)
        return PreparedBuild(pipeline=PIPELINE, item_set=items, finish=finish, models=models)


class RelevanceMining(Struct, frozen=True, kw_only=True):
    """The documents that questions' answers rest on, found as R2MED was made (Section 3.3, Appendix A)."""

    questions: str
    """A benchmark with answers, such as ``mirage/medqa``, ``jsonl:FILE`` or ``sample``."""
    corpus: str
    """What is searched: ``beir:FOLDER``, an index by name, or ``sample``."""
    retrievers: Sequence[str] = ()
    """The committee; none: bm25."""
    panel: Sequence[str] = ()
    """Small models: a question that several of them answer is too easy."""
    rewriter: str | None = None
    """Makes questions without options; ``None``: the execution's model."""
    reasoner: str | None = None
    """Writes the reasoning paths; ``None``: the execution's model."""
    grader: str | None = None
    """Grades the documents; ``None``: the execution's model."""
    top_k: int = 100
    """Documents that each retriever gives for each text."""
    candidates: int = 100
    """Documents a question that are graded."""
    max_right: int = 1
    """Of the panel may answer a question that is kept."""
    positive: int = 8
    """A positive has at least this on both axes."""
    negative: int = 4
    """A negative has at most this on both axes."""
    sheet_size: int = 100
    """Items in the experts' sheet; 0: no sheet."""
    experts: int = 1
    ratings: Path | None = None
    reranked: int = 0
    """Documents a side in the reranking set; 0: all."""
    license: str = "not known"

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the questions, and open the corpus with its retrievers.

        Raises:
            UserError: an unknown benchmark, corpus or retriever; a model or a retriever that is named twice.
        """
        from ragrounds.build.judged_sets import ExpertReview
        from ragrounds.build.mining_benchmark import MiningSettings, mining_product
        from ragrounds.build.relevance_mining import PIPELINE, GradeThresholds, question_items

        thresholds = GradeThresholds(positive=self.positive, negative=self.negative)
        panel = _distinct_models("--panel", self.panel)
        loaded = load(self.questions, settings.home)
        searched, committee = _open_corpus(self.corpus, self.retrievers, settings, listener)
        found, dropped = question_items(loaded, searched)
        name = f"relevance-mining/{loaded.name.replace('/', '-')}"
        items = draw_items(name, found, dropped, of=self.questions, limit=execution.limit, seed=execution.seed)
        listener.message(
            f"{self.questions}: {items.read:,} questions, {len(items.items):,} are worked on; "
            f"{len(searched):,} documents."
        )
        goes_by = MiningSettings(
            name=_set_name(execution.out),
            license=self.license,
            item_set=items,
            thresholds=thresholds,
            expert=ExpertReview(out=execution.out, sample=self.sheet_size, experts=self.experts, sheet=self.ratings),
            reranked=self.reranked,
        )
        models = _named(rewriting=self.rewriter, reasoning=self.reasoner, grading=self.grader)
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=lambda results: mining_product(results, searched, goes_by),
            parameters={
                "panel": len(panel),
                "most_right": self.max_right,
                "top_k": self.top_k,
                "candidates": self.candidates,
                "positive": self.positive,
                "negative": self.negative,
            },
            models=models | {f"panel_{number}": text for number, text in enumerate(panel, 1)},
            searcher=committee,
        )


class ConsensusLabels(Struct, frozen=True, kw_only=True):
    """What retrievers find for queries, labelled by several models, as CMedTEB was made (Section 3.1)."""

    queries: str
    """A JSON Lines file {id, text}, or a benchmark, such as ``pubmedqa`` or ``sample``."""
    corpus: str
    """What is searched: ``beir:FOLDER``, an index by name, or ``sample``."""
    labellers: Sequence[str]
    """Two models or more."""
    retrievers: Sequence[str] = ()
    """The committee; none: bm25."""
    synonyms: Path | None = None
    """JSON Lines {term, synonym}: also make synonym triples, which the execution's model writes."""
    relevant: str = "SA"
    """Which of the grades S, A, B, C, D are relevant."""
    top_k: int = 500
    """Passages that each retriever gives for a query."""
    candidates: int = 500
    """Passages a query that are labelled."""
    batch_size: int = 10
    """Documents in one call."""
    language: str = "en"
    """Of a file of queries: ``en`` or ``zh``."""
    sheet_size: int = 100
    """Items in the experts' sheet; 0: no sheet."""
    experts: int = 1
    ratings: Path | None = None
    reranked: int = 0
    """Documents a side in the reranking set; 0: all."""
    license: str = "not known"

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the queries, and open the corpus with its retrievers.

        Raises:
            UserError: fewer than two labellers, unknown grades, queries or corpus; a model that is named twice.
        """
        from ragrounds.build.consensus_benchmark import ConsensusSettings, consensus_product
        from ragrounds.build.consensus_labels import PIPELINE, open_queries, query_items, read_synonyms
        from ragrounds.build.judged_sets import ExpertReview
        from ragrounds.build.relevance_labels import check_relevant

        check_relevant(self.relevant)
        one_of("--language", self.language, ("en", "zh"))
        names = _distinct_models("--labeller", self.labellers)
        if len(names) < 2:
            raise UserError(f"Consensus needs two or more models, got {', '.join(names)}: repeat --labeller.")
        if self.synonyms and not execution.model:
            raise UserError("--synonyms needs --model, which writes the sentences.")
        pairs = read_synonyms(self.synonyms) if self.synonyms else ()
        found, dropped = query_items(open_queries(self.queries, settings.home, self.language), pairs)
        searched, committee = _open_corpus(self.corpus, self.retrievers, settings, listener)
        name = f"consensus-labels/{_source_name(self.queries)}"
        items = draw_items(name, found, dropped, of=self.queries, limit=execution.limit, seed=execution.seed)
        listener.message(
            f"{self.queries}: {items.read:,} queries, {len(items.items):,} are worked on; {len(searched):,} passages."
        )
        goes_by = ConsensusSettings(
            name=_set_name(execution.out),
            license=self.license,
            item_set=items,
            models=names,
            relevant=self.relevant,
            expert=ExpertReview(out=execution.out, sample=self.sheet_size, experts=self.experts, sheet=self.ratings),
            reranked=self.reranked,
        )
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=lambda results: consensus_product(results, searched, goes_by),
            model=execution.model or names[0],
            parameters={
                "labellers": len(names),
                "top_k": self.top_k,
                "candidates": self.candidates,
                "at_once": self.batch_size,
                "relevant": self.relevant,
            },
            models={f"labelling_{number}": text for number, text in enumerate(names, 1)},
            searcher=committee,
        )


class FalseNegatives(Struct, frozen=True, kw_only=True):
    """How many relevant documents a benchmark's labels miss, estimated as CMedTEB did (Appendix E, Table 20)."""

    benchmark: str
    """Queries and judgements: ``beir:FOLDER``, ``beir/NAME``, ``r2med:FOLDER``, ``r2med/NAME``."""
    retriever: str = "bm25"
    """What finds the documents."""
    split: str = "test"
    """Which judgements of a BEIR folder."""
    top_k: int = 50
    """Documents that the retriever gives for a query."""
    sample: int = 0
    """How many of these are graded, drawn within bands of ranks; 0: all."""
    bands: str = "10,25"
    """Last ranks of all bands but the deepest."""
    relevant: str = "SA"
    """Which of the grades S, A, B, C, D are relevant."""
    batch_size: int = 10
    """Documents in one call."""
    language: str = "en"
    """Of the prompts: ``en`` or ``zh``."""
    sheet_size: int = 500
    """Items in the experts' sheet; 0: no sheet."""
    experts: int = 1
    ratings: Path | None = None

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the queries with their judgements, and open the retriever over their documents.

        Raises:
            UserError: no such queries, unknown grades, bands that do not rise, or an unknown retriever.
        """
        from ragrounds.build.false_negative_benchmark import FalseNegativeBenchmark, check_documents
        from ragrounds.build.false_negatives import PIPELINE, judged_query_items
        from ragrounds.build.judged_sets import ExpertReview
        from ragrounds.build.relevance_labels import check_relevant

        check_relevant(self.relevant)
        one_of("--language", self.language, ("en", "zh"))
        asked = query_set(self.benchmark, split=self.split, home=settings.home)
        check_documents(asked, asked.corpus)
        items = judged_query_items(asked, language=self.language, limit=execution.limit, seed=execution.seed)
        listener.message(f"{asked.name}: {items.read:,} judged queries, {len(items.items):,} are drawn.")
        searcher = open_searcher(self.retriever, asked.corpus, settings.home, progress=listener.reading)
        finish = FalseNegativeBenchmark(
            name=execution.out.resolve().name,
            asked=asked,
            benchmark=asked.corpus,
            item_set=items,
            bands=read_bands(self.bands, self.top_k),
            relevant=self.relevant,
            expert=ExpertReview(out=execution.out, sample=self.sheet_size, experts=self.experts, sheet=self.ratings),
        )
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=finish,
            parameters={
                "depth": self.top_k,
                "sample": self.sample,
                "bands": self.bands,
                "at_once": self.batch_size,
                "seed": execution.seed,
            },
            searcher=searcher,
        )


def _open_corpus(
    corpus: str, retrievers: Sequence[str], settings: Settings, listener: RunListener
) -> tuple[Corpus, Committee]:
    """A corpus, and the committee of retrievers that searches it; none named: BM25."""
    from ragrounds.build.judged_sets import Corpus

    searched = Corpus(corpus, settings.home, progress=listener.reading)
    members = list(retrievers or ["bm25"])
    return searched, open_committee(members, corpus, settings.home, progress=listener.reading)


def _distinct_models(option: str, models: Sequence[str]) -> tuple[str, ...]:
    """Models in their order, each as its canonical text.

    Raises:
        UserError: one is named twice: it would agree with itself.
    """
    texts = [str(parse(model)) for model in models]
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise UserError(f"{option} {twice!r} is named twice: it would count twice.")
    return tuple(texts)


def _named(**roles: str | None) -> dict[str, str]:
    return {role: text for role, text in roles.items() if text}


def _set_name(out: Path) -> str:
    """A dataset's name from the folder's, as `ragrounds data add` takes it."""
    return re.sub(r"[^\w.-]+", "-", out.resolve().name).lstrip(".-") or "built"


def _source_name(queries: str) -> str:
    file = Path(queries)
    return (file.name.partition(".")[0] if file.is_file() else queries.partition(":")[0]).replace("/", "-")
