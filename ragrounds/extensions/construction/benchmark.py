"""Files of benchmarks, made from the items that a pipeline kept: one function per pipeline, and shared helpers.

This file is separate from the graphs, whose source is a part of every run's fingerprint: a change of the files' form or
of thresholds thus repeats no model call. All grades of models are in ``grades.jsonl``, even if nothing qualifies,
because they were paid for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec
from msgspec import Struct

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.stats import Estimate
from ragrounds.extensions.construction.case_reports import ReportFilters, ReportSource, store_of
from ragrounds.extensions.construction.expert_sheets import (
    ExpertReview,
    FinalLabel,
    agreement_note,
    read_ratings,
    reviewed,
    sheet_files,
    sheet_lines,
)
from ragrounds.extensions.construction.false_negative_estimate import (
    NO_GRADE,
    GradedQuery,
    MissingLabels,
    estimate_missing,
)
from ragrounds.extensions.construction.files import GRADES, Lines, Product, beir_files, json_lines, qrels_lines
from ragrounds.extensions.construction.items import Dropped, ItemSet
from ragrounds.extensions.construction.judged_sets import (
    Corpus,
    JudgedQuery,
    by_fate,
    judged_beir,
    judged_r2med,
    query_ids,
    refined,
    rerank_lines,
    titled,
)
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.extensions.construction.pipeline import ItemResult, kept_results
from ragrounds.extensions.construction.relevance_labels import Consensus, LabelledPair, consensus
from ragrounds.extensions.construction.relevance_labels import fate as fate_of_pair
from ragrounds.extensions.construction.relevance_mining import GradeThresholds
from ragrounds.extensions.construction.relevance_mining import fate as fate_of_document
from ragrounds.extensions.construction.stages import MALFORMED, reason_counts
from ragrounds.extensions.retrieval.query_sets import QuerySet

EXPERTS, VERIFY = "experts", "verify"
RETRIEVE = "ragrounds retrieve --benchmark {family}:{{out}} --retriever bm25"


class SetSettings(Struct, frozen=True, kw_only=True):
    """Settings of a retrieval benchmark."""

    name: str
    license: str
    item_set: ItemSet
    expert: ExpertReview

    def card(self, family: str, title: str, size: int, note: str) -> Card:
        """Return the benchmark's card."""
        return Card(
            name=f"{family}/{self.name}",
            title=f"{self.name}: {title}",
            task="retrieval",
            source=self.item_set.items.card.source,
            license=self.license,
            language=self.item_set.items.questions[0].language,
            size=size,
            metric="nDCG@10",
            headline=("rouge-l",),
            note=note,
        )

    def experts(
        self, labels: Sequence[FinalLabel], queries: Mapping[str, str], corpus: Corpus
    ) -> tuple[dict[str, Lines], JsonObject, list[str]]:
        """Return the sheet with a sample of the labels, or the experts' agreement as a figure and a note if it was
        filled in.

        Raises:
            UserError: a sheet that cannot be read, or is not of these labels.
        """

        def texts(ids: Iterable[str]) -> dict[str, str]:
            """Return the texts of documents."""
            return {id: titled(passage) for id, passage in corpus.some(set(ids)).items()}

        sheet, agreed = reviewed(self.expert, labels, queries, texts, self.item_set.seed)
        return {**sheet}, {"experts": agreed} if agreed else {}, [agreement_note(agreed)] if agreed else []


class JudgedItem(Struct, frozen=True, kw_only=True):
    """A query with its judgements, all grades behind them, and its parts without a grade."""

    query: JudgedQuery
    rows: list[JsonObject]
    faults: list[Dropped]


class JudgedForm(Struct, frozen=True, kw_only=True):
    """Form and description of a benchmark of judged queries."""

    family: str
    title: str
    built_by: str
    drop_reason: str
    """Reason why queries without a positive are dropped."""
    following: str
    """Command to try after the evaluation of a retriever."""
    files: Callable[[Sequence[JudgedQuery], Corpus], dict[str, Lines]]
    """Function from queries and corpus to the files."""


def _judged_product(
    items: Sequence[JudgedItem],
    corpus: Corpus,
    settings: SetSettings,
    form: JudgedForm,
    figures: JsonObject,
    notes: Sequence[str],
) -> Product:
    """Return the product of queries with a positive, and of the corpus without ambiguous documents."""
    queries = refined([judged_item.query for judged_item in items if judged_item.query.positives])
    dropped = [drop for judged_item in items for drop in judged_item.faults]
    for judged_item in items:
        if not judged_item.query.positives:
            counts = Counter(row["fate"] for row in judged_item.rows)
            detail = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
            dropped.append(Dropped(id=judged_item.query.id, stage=VERIFY, reason=form.drop_reason, detail=detail))
    files: dict[str, Lines] = {}
    if queries:
        labels = [
            FinalLabel(query=query.id, document=id, relevant=relevant)
            for query in queries
            for relevant, ids in ((True, query.positives), (False, query.negatives))
            for id in ids
        ]
        sheet, agreed, sheet_notes = settings.experts(labels, {query.id: query.text for query in queries}, corpus)
        files, figures, notes = {**form.files(queries, corpus), **sheet}, {**figures, **agreed}, [*notes, *sheet_notes]
    if rows := [row for judged_item in items for row in judged_item.rows]:
        files[GRADES] = json_lines(rows)
    return Product(
        benchmark=settings.card(
            form.family, form.title, len(queries), f"Built by {form.built_by}; card.json says how."
        ),
        files=files,
        stage=VERIFY,
        dropped=tuple(dropped),
        figures=figures,
        notes=tuple(notes),
        following=(RETRIEVE.format(family=form.family), form.following),
    )


def mining_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, thresholds: GradeThresholds
) -> Product:
    """Return the benchmark of `relevance-mining`, in R2MED's form: questions with a verified positive.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    kept_items = kept_results(results)
    names = query_ids([result.question.id for result in kept_items])
    items = []
    for result in kept_items:
        name, product = names[result.question.id], result.product
        grades: list[JsonObject] = product["grades"]
        rows = [
            {
                "query": name,
                "reasoning": product["reasoning"],
                "document": grade["id"],
                "fate": fate_of_document(grade, thresholds),
                **grade,
            }
            for grade in grades
        ]
        query = by_fate(result.question, name, rows, product["query"], product["answer"])
        faults = [
            _fault(name, "grade", grade, f"{grade['id']}: {grade['fault']}") for grade in grades if "fault" in grade
        ]
        items.append(JudgedItem(query=query, rows=rows, faults=faults))
    fates = Counter(row["fate"] for judged_item in items for row in judged_item.rows)
    counts = {
        "graded": fates.total(),
        **{name: fates[name] for name in ("positive", "negative", "dropped", "ungraded")},
    }
    reasons_text = reason_counts(fault.reason for judged_item in items for fault in judged_item.faults)
    note = (
        f"{counts['graded']:,} documents were graded: {counts['positive']:,} positive, {counts['negative']:,} "
        f"negative, {counts['dropped']:,} ambiguous and left out, {counts['ungraded']:,} without a grade{reasons_text}."
    )
    form = JudgedForm(
        family="r2med",
        title="retrieval mined by relevance",
        built_by="relevance-mining (R2MED's construction)",
        drop_reason="no verified positive",
        following=f"ragrounds data add r2med/{quote(settings.name)} {{out}}",
        files=judged_r2med,
    )
    return _judged_product(items, corpus, settings, form, {"documents": counts}, [note])


def consensus_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, models: tuple[str, ...], relevant: str
) -> Product:
    """Return the benchmark of `consensus-labels`: a BEIR folder, a reranking and a similarity set.

    It has the queries with a positive by consensus of `models`. `relevant` are the grades that count as relevant.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    kept_items = kept_results(results)
    names = query_ids([result.question.id for result in kept_items])
    items, pairs = list[JudgedItem](), list[LabelledPair]()
    for result in kept_items:
        name, labels = names[result.question.id], result.product["labels"]
        own_pairs = [LabelledPair(query=name, document=id, grades=tuple(grades)) for id, grades in labels.items()]
        rows: list[JsonObject] = [
            {
                "query": name,
                "document": pair.document,
                "fate": fate_of_pair(pair.grades, relevant),
                "grades": pair.grades,
                "similarity": pair.similarity,
            }
            for pair in own_pairs
        ]
        faults = [
            _fault(
                name, "label", fault, f"labeller {fault['labeller']}, {fault['passages']} passages: {fault['detail']}"
            )
            for fault in result.product["faults"]
        ]
        query = by_fate(result.question, name, rows, result.question.text)
        items.append(JudgedItem(query=query, rows=rows, faults=faults))
        pairs += own_pairs
    agreement = consensus(models, pairs, relevant)
    query_texts = {judged_item.query.id: judged_item.query.text for judged_item in items}

    def set_files(queries: Sequence[JudgedQuery], corpus: Corpus) -> dict[str, Lines]:
        """Return the files of the sets. The similarity set has the pairs that all models put into one class."""
        rows = [row for judged_item in items for row in judged_item.rows if row["fate"] in ("positive", "negative")]
        texts = {id: titled(passage) for id, passage in corpus.some({row["document"] for row in rows}).items()}
        graded_pairs = [
            {"sentence1": query_texts[row["query"]], "sentence2": texts[row["document"]], "score": row["similarity"]}
            for row in rows
        ]
        files: dict[str, Lines] = {"sets/rerank.jsonl": rerank_lines(queries, texts)}
        if len(graded_pairs) > 2 and len({pair["score"] for pair in graded_pairs}) > 1:  # a correlation is defined
            files["sets/sts.jsonl"] = json_lines(graded_pairs)
        return judged_beir(queries, corpus) | files

    form = JudgedForm(
        family="beir",
        title="retrieval labelled by consensus",
        built_by="consensus-labels (CMedTEB's construction)",
        drop_reason="no passage that all models find relevant",
        following="ragrounds retrieve --benchmark rerank:{out}/sets/rerank.jsonl --retriever bm25",
        files=set_files,
    )
    return _judged_product(items, corpus, settings, form, {"consensus": agreement}, [_consensus_note(agreement)])


def _consensus_note(agreement: Consensus) -> str:
    counts = agreement.counts
    kappas = [
        f"{'not defined' if kappa is None else f'{kappa:.3f}'} {scope}"
        for kappa, scope in ((agreement.kappa, "of the grades"), (agreement.kappa_relevant, "of relevant or not"))
    ]
    return (
        f"{agreement.pairs:,} pairs were labelled by {len(agreement.models)} models: {counts['positive']:,} relevant "
        f"and {counts['negative']:,} not by all of them, {counts['dropped']:,} in dispute and left out, "
        f"{counts['unlabelled']:,} without a label of each. Fleiss' kappa {' and '.join(kappas)}."
    )


def _fault(id: str, stage: str, fault: Mapping[str, str], detail: str) -> Dropped:
    """Return the record of a part of an item that has no grade; the item continues."""
    return Dropped(id=id, stage=stage, reason=fault.get("reason", MALFORMED), detail=detail)


def missing_product(
    results: Sequence[ItemResult], query_set: QuerySet, corpus: Corpus, settings: SetSettings, depth: int, relevant: str
) -> Product:
    """Return the figures of `false-negatives`, and the benchmark with the labels that it missed.

    ``qrels/test.tsv`` has the benchmark's judgements and, at grade 1, every false negative that was found;
    ``qrels/original.tsv`` has only the judgements of the same queries. No label is removed: labels that the grades
    contradict are in ``grades.jsonl``.

    Raises:
        UserError: an experts' sheet that cannot be read, or is not of these grades.
    """
    kept_items = kept_results(results)
    queries = [
        GradedQuery(
            query=result.question.id,
            cluster=result.question.cluster,
            candidates=tuple(result.product["candidates"]),
            grades=dict(result.product["grades"]),
            labelled=frozenset(result.gold.documents),
        )
        for result in kept_items
    ]
    lost_reasons = [
        result.outcome.reason if result.outcome else result.status for result in results if result.status != "kept"
    ]
    figures: JsonObject = {}
    notes = ["There are no figures: no query has a grade."]
    if any(any(query.grades.values()) for query in queries):
        missing = estimate_missing(queries, relevant, depth=depth, lost=lost_reasons, seed=settings.item_set.seed)
        figures = {"missing": msgspec.to_builtins(missing), "relevant": relevant}
        notes = _sentences(missing, settings.item_set.passed)
    missing_ids = {
        query.query: [
            id for id in query.candidates if id not in query.labelled and (query.grades.get(id) or "-") in relevant
        ]
        for query in queries
    }
    # A sample of the false negatives for experts (the paper: 500, of which they confirmed 92 %).
    labels = [FinalLabel(query=query, document=id, relevant=True) for query, ids in missing_ids.items() for id in ids]
    sheet, agreed, sheet_notes = settings.experts(labels, query_set.queries, corpus)
    faults = [
        _fault(result.question.id, "grade", fault, f"{fault['passages']} documents: {fault['detail']}")
        for result in kept_items
        for fault in result.product["faults"]
    ]
    without_grade = [
        Dropped(id=query.query, stage="grade", reason=NO_GRADE) for query in queries if not any(query.grades.values())
    ]
    files: dict[str, Lines] = {}
    if queries:
        judgements = {query.query: dict(query_set.judgements[query.query]) for query in queries}
        completed = {id: {**grades, **dict.fromkeys(missing_ids[id], 1)} for id, grades in judgements.items()}
        documents = ((passage.document, passage.title, passage.text) for passage in corpus)
        files = {
            **beir_files(documents, {id: query_set.queries[id] for id in judgements}, completed),
            "qrels/original.tsv": qrels_lines(judgements),
            GRADES: json_lines(row for query in queries for row in _graded_rows(query, relevant)),
        }
    return Product(
        benchmark=settings.card(
            "beir",
            f"{query_set.name} with its missing labels",
            len(queries),
            "The added labels come from one retriever's results: they favour this retriever.",
        ),
        files=files | sheet,
        dropped=(*faults, *without_grade),
        figures=figures | agreed,
        notes=(*notes, *sheet_notes),
        following=(
            "ragrounds retrieve --benchmark beir:{out} --split original --retriever bm25",
            RETRIEVE.format(family="beir"),
            "ragrounds data add beir/NAME {out}",
        ),
    )


def _graded_rows(query: GradedQuery, relevant: str) -> Iterable[JsonObject]:
    for rank, document in enumerate(query.candidates, 1):
        if document in query.grades:
            grade, labelled = query.grades[document], document in query.labelled
            is_relevant = None if grade is None else grade in relevant
            yield {
                "query": query.query,
                "document": document,
                "rank": rank,
                "grade": grade,
                "relevant": is_relevant,
                "labelled": labelled,
                "false_negative": None if is_relevant is None else is_relevant and not labelled,
                "false_positive": None if is_relevant is None else labelled and not is_relevant,
            }


def _sentences(missing: MissingLabels, queries: int) -> list[str]:
    """Return the figures as sentences."""
    false_negatives = missing.false_negatives
    notes = [
        f"Per query, among the {missing.depth} documents found: {_figure(missing.labelled)} labelled as relevant, "
        f"{_figure(missing.relevant)} relevant by the grades; {_figure(missing.false_positives)} false positives, "
        f"{_figure(false_negatives)} false negatives (95 % intervals over {missing.queries:,} queries).",
        f"Over the benchmark's {queries:,} queries that is {false_negatives.value * queries:,.0f} missing labels "
        f"({_ends(false_negatives, queries, 0)}), deeper ones not counted.",
    ]
    if missing.unreadable:
        notes.append(f"{missing.unreadable:,} pairs have no grade; they are in no figure, and rejected.jsonl says why.")
    if missing.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in missing.left_out_why.items())
        notes.append(f"{missing.left_out:,} queries are in no figure ({reasons}).")
    return notes


def _figure(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({_ends(estimate, 1, 2)})"


def _ends(figure: Estimate, times: int, digits: int) -> str:
    if figure.low is None or figure.high is None:
        return "too few queries for an interval"
    return f"{figure.low * times:,.{digits}f} to {figure.high * times:,.{digits}f}"


SCALE = ("1", "2", "3", "4", "5")
NOT_RATED = "not rated"
INSTRUCTIONS = b"""# Rating the questions

Each row of the sheet is a question about a case and the answer that was taken from the published report. Write a whole
number from 1 to 5 into your rating column:

- 5: the question is realistic, needs a specialist's knowledge, and the answer is right for it;
- 4: the same, with small flaws that change nothing;
- 3: the question or the answer is only partly right, or the question hardly needs special knowledge;
- 2: question and answer fit badly;
- 1: the case could not occur like this, or the answer is wrong.

Leave the cell empty where you cannot judge. Comments are for the authors; they change nothing.
"""


class ExpertRating(Struct, frozen=True, kw_only=True):
    """Request to experts for ratings of questions, or their ratings (OGCaReBench, Section 3.1, step 4)."""

    sheet: Path | None = None
    """Filled-in sheet."""
    raters: int = 1
    least: int = 4
    """Smallest rating of a pair that is kept. All its ratings must be at least this."""

    def fault(self, ratings: Sequence[str | None] | None) -> tuple[str, str]:
        """Return the reason why a pair is dropped, and the details; empty texts if it is kept."""
        if ratings is None:
            return NOT_RATED, "it is not in the sheet, or its texts differ"
        numbers = [int(rating) for rating in ratings if rating is not None]
        if not numbers:
            return NOT_RATED, "its cells are empty"
        return ("", "") if min(numbers) >= self.least else (f"rated below {self.least}", ", ".join(map(str, numbers)))


def case_product(
    results: Sequence[ItemResult],
    item_set: ItemSet,
    reports: ReportSource,
    out: Path,
    rating: ExpertRating,
    *,
    license: str,
    filters: ReportFilters,
    checks_itself: bool,
) -> Product:
    """Return the benchmark of `case-questions`: OGCaReBench's form, its store of reports, and a sheet for experts.

    Args:
        results: results of the reports.
        item_set: the sampled reports.
        reports: all reports.
        out: the folder, which may contain earlier sheets.
        rating: request to the experts, or their ratings.
        license: licence of the sources.
        filters: filters of the intake, for the card.
        checks_itself: True if the model that checks the rewritten questions also wrote them.

    Raises:
        UserError: the sheet of ratings is broken, or is of other questions.
    """
    pairs, dropped = kept_results(results), list[Dropped]()
    rows = {pair.question.id: (str(pair.product["question"]), str(pair.product["answer"])) for pair in pairs}
    figures: JsonObject = {"filters": msgspec.to_builtins(filters)}
    if rating.sheet is not None:
        texts = {id: dict(zip(_SHEET_COLUMNS, cells, strict=True)) for id, cells in rows.items()}
        ratings = read_ratings(rating.sheet, texts, SCALE, texts=texts)
        for pair in pairs:
            reason, detail = rating.fault(ratings.items.get(pair.question.id))
            if reason:
                dropped.append(Dropped(id=pair.question.id, stage=EXPERTS, reason=reason, detail=detail))
        left_out = {drop.id for drop in dropped}
        pairs = [pair for pair in pairs if pair.question.id not in left_out]
        rated = sum(any(item_ratings) for item_ratings in ratings.items.values())
        figures |= {"raters": len(ratings.raters), "rated": rated, "least": rating.least}
    notes, files = list[str](), dict[str, Lines]()
    if checks_itself:
        notes.append("The rewritten questions were checked by the model that wrote them: --checker sets another.")
    if pairs:
        pair_by_number = {str(number): pair for number, pair in enumerate(pairs, 1)}
        judgements = {number: {pair.gold.documents[0]: 1} for number, pair in pair_by_number.items()}
        queries = {number: str(pair.product["question"]) for number, pair in pair_by_number.items()}
        files = {
            "ogcarebench.jsonl": json_lines(_row(pair) for pair in pairs),
            **beir_files(store_of(reports), queries, judgements),
        }
        if rating.sheet is None:
            sheet = sheet_files(out, sheet_lines(_SHEET_COLUMNS, rows, rating.raters), INSTRUCTIONS)
            files |= sheet
            notes.append(f"No expert has rated these {len(pairs):,} pairs yet: use {next(iter(sheet))}.")
    languages = {pair.question.language for pair in pairs}
    card = Card(
        name=item_set.items.name,
        title=f"Case questions from {reports.name}",
        task="long",
        source=f"built from {reports.name} by `ragrounds build case-questions`",
        license=license,
        language=languages.pop() if len(languages) == 1 else "en",
        size=len(pairs),
        metric="share of equivalent answers",
        headline=("equivalent",),
        columns=("rouge-l",),
        note="Equivalence needs a judge. The answers are verbatim from the timelines that a model made.",
    )
    return Product(
        benchmark=card,
        files=files,
        stage=EXPERTS if rating.sheet is not None else "",
        dropped=tuple(dropped),
        figures=figures,
        notes=tuple(notes),
        following=(
            "ragrounds data add ogcarebench/NAME {out}",
            "ragrounds run --benchmark ogcarebench:{out} --corpus beir:{out} --agent vanilla_rag --model …",
            RETRIEVE.format(family="beir"),
        ),
    )


_SHEET_COLUMNS = ("question", "answer")
"""Columns of the sheet that show a pair."""


def _row(pair: ItemResult) -> JsonObject:
    product = pair.product
    return {
        "Title": pair.question.metadata.get("title", ""),
        "pmc_id": pair.gold.documents[0],
        "Classification": pair.question.group,
        "question": product["question"],
        "answer": product["answer"],
        "original_question": product["original"],
        "significance": product["significance"],
        "significance_type": product["kind"],
        "distractors": product["distractors"],
    }
