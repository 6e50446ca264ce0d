"""Requests for the pipelines that make benchmarks, each with its input, for
:func:`ragrounds.extensions.construction.functions.build`.

The fields of a request are also the options of its command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from ragrounds.api.arguments import Arg
from ragrounds.api.progress import RunListener
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.judges.attempts import judges_itself
from ragrounds.extensions.construction.benchmark import (
    ExpertRating,
    SetSettings,
    case_product,
    consensus_product,
    mining_product,
    missing_product,
)
from ragrounds.extensions.construction.case_reports import ReportFilters, open_reports, report_items
from ragrounds.extensions.construction.committee import Committee, open_committee
from ragrounds.extensions.construction.expert_sheets import ExpertReview
from ragrounds.extensions.construction.functions import BuildExecution, BuildRequest, PreparedBuild
from ragrounds.extensions.construction.items import Dropped, ItemSet, draw_items
from ragrounds.extensions.construction.judged_sets import Corpus
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.tools.retriever import open_searcher
from ragrounds.ui.text import safe

Several = Sequence[str]
OwnModel = str | None
License = Annotated[str, Arg("The licence of the sources, for the card.")]
Relevant = Annotated[str, Arg("Which of the grades S, A, B, C, D are relevant.")]
SheetSize = Annotated[int, Arg("Items in the experts' sheet; 0: no sheet.", 0)]
BatchSize = Annotated[int, Arg("Documents in one call.", 1, 100)]
Language = Literal["en", "zh"]


class _Experts(BuildRequest, frozen=True, kw_only=True):
    """Request to experts, and their ratings."""

    experts: Annotated[int, Arg("Columns for experts in the sheet that is written.", 1)] = 1
    ratings: Annotated[Path | None, Arg("The sheet with the experts' decisions.")] = None

    def review(self, execution: BuildExecution, sample: int) -> ExpertReview:
        """Return the request for a review of `sample` labels."""
        return ExpertReview(out=execution.out, sample=sample, experts=self.experts, sheet=self.ratings)


class _Sets(_Experts, frozen=True, kw_only=True):
    """Inputs and contents of retrieval sets."""

    corpus: Annotated[str, Arg("What is searched: beir:FOLDER, an index by name, or sample.")]
    retrievers: Annotated[
        Several,
        Arg("A member of the committee, such as bm25 (repeatable). [default: bm25]", option="--retriever", many=True),
    ] = ()
    sheet_size: SheetSize = 100
    license: License = "not known"

    def opened(self, settings: Settings, listener: RunListener) -> tuple[Corpus, Committee]:
        """Open the corpus, and the committee of retrievers that searches it."""
        corpus = Corpus(self.corpus, settings.home, progress=listener.reading)
        members = list(self.retrievers or ["bm25"])
        return corpus, open_committee(members, self.corpus, settings.home, progress=listener.reading)

    def sample_items(
        self, name: str, found_items: Sequence[Item], dropped: Sequence[Dropped], source: str, execution: BuildExecution
    ) -> tuple[ItemSet, SetSettings]:
        """Sample the items, and return them with the settings of the sets."""
        items = draw_items(name, found_items, dropped, source=source, limit=execution.limit, seed=execution.seed)
        set_settings = SetSettings(
            name=_set_name(execution.out),
            license=self.license,
            item_set=items,
            expert=self.review(execution, self.sheet_size),
        )
        return items, set_settings


class CaseQuestions(_Experts, frozen=True, kw_only=True):
    """Long-form questions from case reports, as OGCaReBench was made (Section 3.1)."""

    reports: Annotated[
        str, Arg("Case reports: files:FOLDER (PMC NXML, text), beir:FOLDER, jsonl:FILE, or a path.", option="reports")
    ]
    rewriter: Annotated[OwnModel, Arg("The model that rewrites. [default: `model`]")] = None
    checker: Annotated[OwnModel, Arg("A second model, which checks the rewritten questions. [default: `model`]")] = None
    table: Annotated[
        Path | None, Arg("CSV or JSON Lines by id: year, citations, other_citations, type, specialty, language.")
    ] = None
    after: Annotated[int | None, Arg("Only reports published after this year (the paper: 2022).")] = None
    max_citations: Annotated[int | None, Arg("Only reports that no more articles cite (the paper: 3).", 0)] = None
    max_other_citations: Annotated[
        int | None, Arg("The same for articles that are no case reports (the paper: 1).", 0)
    ] = None
    types: Annotated[
        Several, Arg("Only articles of this type: case-report (repeatable).", option="--type", many=True)
    ] = ()
    min_rating: Annotated[int, Arg("What every rating of a kept pair must reach.", 1, 5)] = 4
    license: License = "not known"

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the reports, and sample from those that pass the filters.

        Raises:
            UserError: no such reports, a broken table, or nothing passes.
        """
        from ragrounds.extensions.construction.case_questions import PIPELINE

        source = open_reports(self.reports, self.table)
        filters = ReportFilters(
            after=self.after,
            max_citations=self.max_citations,
            max_other_citations=self.max_other_citations,
            types=tuple(self.types),
        )
        strangers: list[str] = []
        items = report_items(
            source,
            filters,
            limit=execution.limit,
            seed=execution.seed,
            progress=lambda count: listener.reading(f"reading {source.name}", count),
            strangers=strangers,
        )
        if strangers:
            examples = ", ".join(safe(id, 40) for id in strangers[:3])
            listener.message(
                f"{len(strangers):,} of {len(source.table):,} ids in {self.table} match no report, such as {examples}."
            )
        listener.message(
            f"{source.name}: {items.read:,} reports, {items.passed:,} pass the filters, {len(items.items):,} sampled."
        )
        writer = execution.model or settings.model or ""
        finish = partial(
            case_product,
            item_set=items,
            reports=source,
            out=execution.out,
            rating=ExpertRating(sheet=self.ratings, raters=self.experts, least=self.min_rating),
            license=self.license,
            filters=filters,
            checks_itself=judges_itself(self.checker or writer, [self.rewriter or writer]),
        )
        models = _models_by_role(rewriting=self.rewriter, checking=self.checker)
        return PreparedBuild(pipeline=PIPELINE, item_set=items, finish=finish, models=models)


class RelevanceMining(_Sets, frozen=True, kw_only=True):
    """The documents that support questions' answers, found as for R2MED (Section 3.3, Appendix A)."""

    questions: Annotated[
        str,
        Arg("Questions with answers: a benchmark, such as mirage/medqa, jsonl:FILE or sample.", option="questions"),
    ]
    panel: Annotated[
        Several, Arg("A small model (repeatable): a question that several of them answer is too easy.", many=True)
    ] = ()
    rewriter: Annotated[OwnModel, Arg("Makes questions without options. [default: `model`]")] = None
    reasoner: Annotated[OwnModel, Arg("Writes the reasoning paths. [default: `model`]")] = None
    grader: Annotated[OwnModel, Arg("Grades the documents. [default: `model`]")] = None
    top_k: Annotated[int, Arg("Documents that each retriever gives for each text.", 1)] = 100
    candidates: Annotated[int, Arg("Documents a question that are graded.", 1)] = 100
    max_right: Annotated[int, Arg("Of the panel may answer a question that is kept.", 0)] = 1
    positive: Annotated[int, Arg("A positive has at least this on both axes.")] = 8
    negative: Annotated[int, Arg("A negative has at most this on both axes.")] = 4

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the questions, and open the corpus with its retrievers.

        Raises:
            UserError: an unknown benchmark, corpus or retriever; a model or a retriever that is named twice.
        """
        from ragrounds.extensions.construction.relevance_mining import PIPELINE, GradeThresholds, question_items

        thresholds = GradeThresholds(positive=self.positive, negative=self.negative)
        panel = _distinct_models("--panel", self.panel)
        loaded = load(self.questions, settings.home)
        searched, committee = self.opened(settings, listener)
        found_items, dropped = question_items(loaded, searched)
        name = f"relevance-mining/{loaded.name.replace('/', '-')}"
        items, set_settings = self.sample_items(name, found_items, dropped, self.questions, execution)
        listener.message(
            f"{self.questions}: {items.read:,} questions, {len(items.items):,} are worked on; "
            f"{len(searched):,} documents."
        )
        models = _models_by_role(rewriting=self.rewriter, reasoning=self.reasoner, grading=self.grader)
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=lambda results: mining_product(results, searched, set_settings, thresholds),
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


class ConsensusLabels(_Sets, frozen=True, kw_only=True):
    """Passages that retrievers find for queries, labelled by several models, as for CMedTEB (Section 3.1)."""

    queries: Annotated[
        str,
        Arg(
            "Queries: a JSON Lines file {id, text}, or a benchmark, such as pubmedqa or sample.",
            option="queries",
        ),
    ]
    labellers: Annotated[
        Several,
        Arg("A model that labels (repeatable: two or more, the paper has three).", option="--labeller", many=True),
    ]
    relevant: Relevant = "SA"
    top_k: Annotated[int, Arg("Passages that each retriever gives for a query.", 1)] = 500
    candidates: Annotated[int, Arg("Passages a query that are labelled.", 1)] = 500
    batch_size: BatchSize = 10
    language: Annotated[Language, Arg("Of a file of queries: en or zh.")] = "en"

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the queries, and open the corpus with its retrievers.

        Raises:
            UserError: fewer than two labellers, unknown grades, queries or corpus; a model that is named twice.
        """
        from ragrounds.extensions.construction.consensus_labels import PIPELINE, open_queries, query_items
        from ragrounds.extensions.construction.relevance_labels import check_relevant

        check_relevant(self.relevant)
        names = _distinct_models("--labeller", self.labellers)
        if len(names) < 2:
            raise UserError(f"Consensus needs two or more models, got {', '.join(names)}: repeat --labeller.")
        found_items, dropped = query_items(open_queries(self.queries, settings.home, self.language))
        searched, committee = self.opened(settings, listener)
        file = Path(self.queries)
        source_name = file.name.partition(".")[0] if file.is_file() else self.queries.partition(":")[0]
        name = f"consensus-labels/{source_name.replace('/', '-')}"
        items, set_settings = self.sample_items(name, found_items, dropped, self.queries, execution)
        listener.message(
            f"{self.queries}: {items.read:,} queries, {len(items.items):,} are worked on; {len(searched):,} passages."
        )
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=lambda results: consensus_product(results, searched, set_settings, names, self.relevant),
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


class FalseNegatives(_Experts, frozen=True, kw_only=True):
    """Estimate of the relevant documents that a benchmark's labels miss, as for CMedTEB (Appendix E, Table 20)."""

    benchmark: Annotated[
        str,
        Arg("Queries and judgements: beir:FOLDER, beir/NAME, r2med:FOLDER, r2med/NAME.", option="benchmark"),
    ]
    retriever: Annotated[str, Arg("What finds the documents (the paper: a dense one).")] = "bm25"
    split: Annotated[str, Arg("Which judgements of a BEIR folder.")] = "test"
    top_k: Annotated[int, Arg("Documents that the retriever gives for a query.", 1)] = 50
    relevant: Relevant = "SA"
    batch_size: BatchSize = 10
    language: Annotated[Language, Arg("Of the prompts: en or zh.")] = "en"
    sheet_size: SheetSize = 500

    def prepare(self, execution: BuildExecution, settings: Settings, listener: RunListener) -> PreparedBuild:
        """Read the queries with their judgements, and open the retriever over their documents.

        Raises:
            UserError: no such queries, unknown grades, or an unknown retriever.
        """
        from ragrounds.extensions.construction.false_negatives import PIPELINE, judged_query_items
        from ragrounds.extensions.construction.relevance_labels import check_relevant

        check_relevant(self.relevant)
        queries = query_set(self.benchmark, split=self.split, home=settings.home)
        corpus = Corpus(queries.corpus, settings.home, progress=listener.reading)
        judged_ids = {document for grades in queries.judgements.values() for document in grades}
        if judged_ids and not corpus.some(judged_ids):
            raise UserError(f"{queries.corpus} has none of the documents in its judgements.")
        items = judged_query_items(queries, language=self.language, limit=execution.limit, seed=execution.seed)
        listener.message(f"{queries.name}: {items.read:,} judged queries, {len(items.items):,} are sampled.")
        searcher = open_searcher(self.retriever, queries.corpus, settings.home, progress=listener.reading)
        set_settings = SetSettings(
            name=_set_name(execution.out),
            license="not known",
            item_set=items,
            expert=self.review(execution, self.sheet_size),
        )
        return PreparedBuild(
            pipeline=PIPELINE,
            item_set=items,
            finish=lambda results: missing_product(results, queries, corpus, set_settings, self.top_k, self.relevant),
            parameters={"depth": self.top_k, "at_once": self.batch_size},
            searcher=searcher,
        )


def _distinct_models(option: str, models: Sequence[str]) -> tuple[str, ...]:
    """Return the models in their order, each as its canonical text.

    Raises:
        UserError: a repeated model: it would agree with itself.
    """
    texts = [str(parse(model)) for model in models]
    repeated = next((text for text in texts if texts.count(text) > 1), None)
    if repeated is not None:
        raise UserError(f"{option} {repeated!r} is given twice: it would count twice.")
    return tuple(texts)


def _models_by_role(**roles: str | None) -> dict[str, str]:
    return {role: text for role, text in roles.items() if text}


def _set_name(out: Path) -> str:
    """Return a dataset's name from the folder's, in the form that `ragrounds data add` takes."""
    return re.sub(r"[^\w.-]+", "-", out.resolve().name).lstrip(".-") or "built"
