"""From what a pipeline kept to the files of its benchmark: a function a pipeline, and what they share.

It is a file apart from the graphs, whose source is a part of every run's fingerprint: another form of the files asks no
model again, and neither do other thresholds. Whatever models graded stands in ``grades.jsonl``, also where nothing
qualifies, because it was paid for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec
from msgspec import Struct

from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.retrieval.query_sets import QuerySet
from ragrounds.evals.stats import Estimate
from ragrounds.extensions.construction.case_reports import ReportFilters, ReportSource, store_of
from ragrounds.extensions.construction.expert_sheets import (
    ExpertReview,
    FinalLabel,
    SheetRatings,
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

EXPERTS, VERIFY = "experts", "verify"
RETRIEVE = "ragrounds retrieve --benchmark {family}:{{out}} --retriever bm25"


class SetSettings(Struct, frozen=True, kw_only=True):
    """What a benchmark of retrieval is made by."""

    name: str
    license: str
    item_set: ItemSet
    expert: ExpertReview

    def card(self, family: str, title: str, size: int, note: str) -> Card:
        """Its card."""
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
        """The sheet with a sample of the labels; or, where it is read back, how far the experts agree, as a figure and
        a note.

        Raises:
            UserError: a sheet that cannot be read, or is not of these labels.
        """

        def texts(ids: Iterable[str]) -> dict[str, str]:
            """Of documents."""
            return {id: titled(passage) for id, passage in corpus.some(set(ids)).items()}

        sheet, agreed = reviewed(self.expert, labels, queries, texts, self.item_set.seed)
        return {**sheet}, {"experts": agreed} if agreed else {}, [agreement_note(agreed)] if agreed else []


class JudgedItem(Struct, frozen=True, kw_only=True):
    """A query with its judgements, every grade behind them, and the parts of it that have none."""

    query: JudgedQuery
    rows: list[JsonObject]
    faults: list[Dropped]


def _judged_product(
    judged: Sequence[JudgedItem],
    corpus: Corpus,
    settings: SetSettings,
    *,
    family: str,
    title: str,
    built_by: str,
    bare: str,
    form: Callable[[Sequence[JudgedQuery], Corpus], dict[str, Lines]],
    figures: JsonObject,
    notes: Sequence[str],
    following: Sequence[str],
) -> Product:
    """Queries with a positive, and the corpus without what is ambiguous. `bare`: why others are dropped."""
    queries = refined([one.query for one in judged if one.query.positives])
    dropped = [fault for one in judged for fault in one.faults]
    for one in judged:
        if not one.query.positives:
            counts = Counter(row["fate"] for row in one.rows)
            detail = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
            dropped.append(Dropped(id=one.query.id, stage=VERIFY, reason=bare, detail=detail))
    files: dict[str, Lines] = {}
    if queries:
        labels = [
            FinalLabel(query=query.id, document=id, relevant=relevant)
            for query in queries
            for relevant, ids in ((True, query.positives), (False, query.negatives))
            for id in ids
        ]
        sheet, agreed, said = settings.experts(labels, {query.id: query.text for query in queries}, corpus)
        files, figures, notes = {**form(queries, corpus), **sheet}, {**figures, **agreed}, [*notes, *said]
    if rows := [row for one in judged for row in one.rows]:
        files[GRADES] = json_lines(rows)
    return Product(
        benchmark=settings.card(family, title, len(queries), f"Built by {built_by}; card.json says how."),
        files=files,
        stage=VERIFY,
        dropped=tuple(dropped),
        figures=figures,
        notes=tuple(notes),
        following=(RETRIEVE.format(family=family), *following),
    )


def mining_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, thresholds: GradeThresholds
) -> Product:
    """The benchmark of `relevance-mining`, in R2MED's form: questions with a verified positive.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    through = kept_results(results)
    names = query_ids([result.question.id for result in through])
    judged = []
    for result in through:
        name, product = names[result.question.id], result.product
        grades: list[JsonObject] = product["grades"]
        rows = [
            {
                "query": name,
                "reasoning": product["reasoning"],
                "document": each["id"],
                "fate": fate_of_document(each, thresholds),
                **each,
            }
            for each in grades
        ]
        query = by_fate(result.question, name, rows, product["query"], product["answer"])
        faults = [_fault(name, "grade", each, f"{each['id']}: {each['fault']}") for each in grades if "fault" in each]
        judged.append(JudgedItem(query=query, rows=rows, faults=faults))
    fates = Counter(row["fate"] for one in judged for row in one.rows)
    counts = {
        "graded": fates.total(),
        **{name: fates[name] for name in ("positive", "negative", "dropped", "ungraded")},
    }
    why = reason_counts(fault.reason for one in judged for fault in one.faults)
    note = (
        f"{counts['graded']:,} documents were graded: {counts['positive']:,} positive, {counts['negative']:,} "
        f"negative, {counts['dropped']:,} ambiguous and left out, {counts['ungraded']:,} without a grade{why}."
    )
    return _judged_product(
        judged,
        corpus,
        settings,
        family="r2med",
        title="retrieval mined by relevance",
        built_by="relevance-mining (R2MED's construction)",
        bare="no verified positive",
        form=judged_r2med,
        figures={"documents": counts},
        notes=[note],
        following=[f"ragrounds data add r2med/{quote(settings.name)} {{out}}"],
    )


def consensus_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, models: tuple[str, ...], relevant: str
) -> Product:
    """The benchmark of `consensus-labels`: a BEIR folder, a reranking and a similarity set, of queries with a positive
    by consensus of `models`. `relevant`: the grades that are.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    through = kept_results(results)
    names = query_ids([result.question.id for result in through])
    judged, pairs = list[JudgedItem](), list[LabelledPair]()
    for result in through:
        name, labels = names[result.question.id], result.product["labels"]
        own = [LabelledPair(query=name, document=id, grades=tuple(grades)) for id, grades in labels.items()]
        rows: list[JsonObject] = [
            {
                "query": name,
                "document": pair.document,
                "fate": fate_of_pair(pair.grades, relevant),
                "grades": pair.grades,
                "similarity": pair.similarity,
            }
            for pair in own
        ]
        faults = [
            _fault(name, "label", each, f"labeller {each['labeller']}, {each['passages']} passages: {each['detail']}")
            for each in result.product["faults"]
        ]
        query = by_fate(result.question, name, rows, result.question.text)
        judged.append(JudgedItem(query=query, rows=rows, faults=faults))
        pairs += own
    found = consensus(models, pairs, relevant)
    asked = {one.query.id: one.query.text for one in judged}

    def form(queries: Sequence[JudgedQuery], corpus: Corpus) -> dict[str, Lines]:
        """The sets of the same labels; similarity from the pairs that all models put into one class."""
        rows = [row for one in judged for row in one.rows if row["fate"] in ("positive", "negative")]
        texts = {id: titled(passage) for id, passage in corpus.some({row["document"] for row in rows}).items()}
        alike = [
            {"sentence1": asked[row["query"]], "sentence2": texts[row["document"]], "score": row["similarity"]}
            for row in rows
        ]
        files: dict[str, Lines] = {"sets/rerank.jsonl": rerank_lines(queries, texts)}
        if len(alike) > 2 and len({pair["score"] for pair in alike}) > 1:  # a correlation can be had of it
            files["sets/sts.jsonl"] = json_lines(alike)
        return judged_beir(queries, corpus) | files

    return _judged_product(
        judged,
        corpus,
        settings,
        family="beir",
        title="retrieval labelled by consensus",
        built_by="consensus-labels (CMedTEB's construction)",
        bare="no passage that all models find relevant",
        form=form,
        figures={"consensus": found},
        notes=[_consensus_note(found)],
        following=["ragrounds retrieve --benchmark rerank:{out}/sets/rerank.jsonl --retriever bm25"],
    )


def _consensus_note(found: Consensus) -> str:
    counts = found.counts
    kappas = [
        f"{'not defined' if kappa is None else f'{kappa:.3f}'} {of}"
        for kappa, of in ((found.kappa, "of the grades"), (found.kappa_relevant, "of relevant or not"))
    ]
    return (
        f"{found.pairs:,} pairs were labelled by {len(found.models)} models: {counts['positive']:,} relevant and "
        f"{counts['negative']:,} not by all of them, {counts['dropped']:,} in dispute and left out, "
        f"{counts['unlabelled']:,} without a label of each. Fleiss' kappa {' and '.join(kappas)}."
    )


def _fault(id: str, stage: str, fault: Mapping[str, str], detail: str) -> Dropped:
    """A part of an item that has no grade; the item continues."""
    return Dropped(id=id, stage=stage, reason=fault.get("reason", MALFORMED), detail=detail)


def missing_product(
    results: Sequence[ItemResult], asked: QuerySet, corpus: Corpus, settings: SetSettings, depth: int, relevant: str
) -> Product:
    """The figures of `false-negatives`, and the benchmark with the labels that it missed.

    ``qrels/test.tsv`` holds the benchmark's judgements and, at grade 1, every false negative that was found;
    ``qrels/original.tsv`` the judgements alone, of the same queries. Nothing is taken away: labels that the grades
    contradict stand in ``grades.jsonl``.

    Raises:
        UserError: an experts' sheet that cannot be read, or is not of these grades.
    """
    through = kept_results(results)
    queries = [
        GradedQuery(
            query=result.question.id,
            cluster=result.question.cluster,
            candidates=tuple(result.product["candidates"]),
            grades=dict(result.product["grades"]),
            labelled=frozenset(result.gold.documents),
        )
        for result in through
    ]
    lost = [one.outcome.reason if one.outcome else one.status for one in results if one.status != "kept"]
    figures: JsonObject = {}
    notes = ["There are no figures: no query has a grade."]
    if any(any(query.grades.values()) for query in queries):
        found = estimate_missing(queries, relevant, depth=depth, lost=lost, seed=settings.item_set.seed)
        figures = {"missing": msgspec.to_builtins(found), "relevant": relevant}
        notes = _said(found, settings.item_set.passed)
    missed = {
        query.query: [
            id for id in query.candidates if id not in query.labelled and (query.grades.get(id) or "-") in relevant
        ]
        for query in queries
    }
    # A sample of the false negatives for experts (the paper: 500, of which they confirmed 92 %).
    labels = [FinalLabel(query=query, document=id, relevant=True) for query, ids in missed.items() for id in ids]
    sheet, agreed, said = settings.experts(labels, asked.queries, corpus)
    faults = [
        _fault(result.question.id, "grade", each, f"{each['passages']} documents: {each['detail']}")
        for result in through
        for each in result.product["faults"]
    ]
    bare = [
        Dropped(id=query.query, stage="grade", reason=NO_GRADE) for query in queries if not any(query.grades.values())
    ]
    files: dict[str, Lines] = {}
    if queries:
        judged = {query.query: dict(asked.judgements[query.query]) for query in queries}
        mended = {id: {**old, **dict.fromkeys(missed[id], 1)} for id, old in judged.items()}
        documents = ((each.document, each.title, each.text) for each in corpus)
        files = {
            **beir_files(documents, {id: asked.queries[id] for id in judged}, mended),
            "qrels/original.tsv": qrels_lines(judged),
            GRADES: json_lines(row for query in queries for row in _graded_rows(query, relevant)),
        }
    return Product(
        benchmark=settings.card(
            "beir",
            f"{asked.name} with its missing labels",
            len(queries),
            "The added labels come from one retriever's results: they favour this retriever.",
        ),
        files=files | sheet,
        dropped=(*faults, *bare),
        figures=figures | agreed,
        notes=(*notes, *said),
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
            right = None if grade is None else grade in relevant
            yield {
                "query": query.query,
                "document": document,
                "rank": rank,
                "grade": grade,
                "relevant": right,
                "labelled": labelled,
                "false_negative": None if right is None else right and not labelled,
                "false_positive": None if right is None else labelled and not right,
            }


def _said(found: MissingLabels, queries: int) -> list[str]:
    """The figures in words."""
    lost = found.false_negatives
    said = [
        f"Per query, among the {found.depth} documents found: {_figure(found.labelled)} labelled as relevant, "
        f"{_figure(found.relevant)} relevant by the grades; {_figure(found.false_positives)} false positives, "
        f"{_figure(lost)} false negatives (95 % intervals over {found.queries:,} queries).",
        f"Over the benchmark's {queries:,} queries that is {lost.value * queries:,.0f} missing labels "
        f"({_ends(lost, queries, 0)}), deeper ones not counted.",
    ]
    if found.unreadable:
        said.append(f"{found.unreadable:,} pairs have no grade; they are in no figure, and rejected.jsonl says why.")
    if found.left_out:
        why = ", ".join(f"{count:,} {reason}" for reason, count in found.left_out_why.items())
        said.append(f"{found.left_out:,} queries are in no figure ({why}).")
    return said


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
    """What experts are asked, or have said, of questions (OGCaReBench, Section 3.1, step 4)."""

    sheet: Path | None = None
    """The sheet that was filled in."""
    raters: int = 1
    least: int = 4
    """A pair is kept where every rating that it has is at least this."""

    def fault(self, ratings: Sequence[str | None] | None) -> tuple[str, str]:
        """Why a pair is dropped, and the case itself; empty texts: it is kept."""
        if ratings is None:
            return NOT_RATED, "it is not in the sheet, or its texts differ"
        given = [int(rating) for rating in ratings if rating is not None]
        if not given:
            return NOT_RATED, "its cells are empty"
        return ("", "") if min(given) >= self.least else (f"rated below {self.least}", ", ".join(map(str, given)))


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
    """The benchmark of `case-questions`: OGCaReBench's form, its store of reports, and a sheet for experts.

    Args:
        results: of the reports.
        item_set: the reports that were drawn.
        reports: all of them.
        out: the folder, where earlier sheets may stand.
        rating: what experts are asked, or have said.
        license: of the sources.
        filters: what the intake went by, for the card.
        checks_itself: whether the model that checks the rewritten questions is the one that wrote them.

    Raises:
        UserError: the sheet of ratings is broken, or is of other questions.
    """
    pairs, dropped = kept_results(results), list[Dropped]()
    rows = {pair.question.id: (str(pair.product["question"]), str(pair.product["answer"])) for pair in pairs}
    figures: JsonObject = {"filters": msgspec.to_builtins(filters)}
    if rating.sheet is not None:
        texts = {id: dict(zip(_SHOWN, cells, strict=True)) for id, cells in rows.items()}
        ratings = read_ratings(rating.sheet, texts, SCALE, texts=texts)
        for pair in pairs:
            reason, detail = rating.fault(ratings.items.get(pair.question.id))
            if reason:
                dropped.append(Dropped(id=pair.question.id, stage=EXPERTS, reason=reason, detail=detail))
        left_out = {one.id for one in dropped}
        pairs = [pair for pair in pairs if pair.question.id not in left_out]
        figures |= _rated(ratings, rating.least)
    notes, files = list[str](), dict[str, Lines]()
    if checks_itself:
        notes.append("The rewritten questions were checked by the model that wrote them: --checker sets another.")
    if pairs:
        numbered = {str(number): pair for number, pair in enumerate(pairs, 1)}
        judged = {number: {pair.gold.documents[0]: 1} for number, pair in numbered.items()}
        queries = {number: str(pair.product["question"]) for number, pair in numbered.items()}
        files = {
            "ogcarebench.jsonl": json_lines(_row(pair) for pair in pairs),
            **beir_files(store_of(reports), queries, judged),
        }
        if rating.sheet is None:
            sheet = sheet_files(out, sheet_lines(_SHOWN, rows, rating.raters), INSTRUCTIONS)
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


_SHOWN = ("question", "answer")
"""Columns of the sheet."""


def _rated(ratings: SheetRatings, least: int) -> JsonObject:
    return {"raters": len(ratings.raters), "rated": sum(any(given) for given in ratings.items.values()), "least": least}


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
