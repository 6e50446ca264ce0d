"""The benchmark of `consensus-labels`: BEIR, a reranking set, two similarity sets, every label, the pairs in
dispute, the experts' sheet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ragrounds.build.card import stage_count
from ragrounds.build.expert_sheets import agreement_note
from ragrounds.build.files import Lines, Product, json_lines, rejection_file
from ragrounds.build.items import Dropped
from ragrounds.build.judged_sets import (
    Corpus,
    JudgedQuery,
    ScoredPair,
    SetSettings,
    by_fate,
    query_ids,
    refined,
    retrieval_files,
    titled,
)
from ragrounds.build.outcome import JsonObject
from ragrounds.build.pipeline import ItemResult, kept_results
from ragrounds.build.relevance_labels import Consensus, LabelledPair, consensus, fate
from ragrounds.build.stages import MALFORMED

VERIFY, LABEL = "verify", "label"
NO_POSITIVE = "no passage that all models find relevant"


def consensus_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, models: tuple[str, ...], relevant: str
) -> Product:
    """The product: queries with a positive by consensus of `models`, the corpus without what is ambiguous. `relevant`:
    the grades that are.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    through = kept_results(results)
    names = query_ids([result.question.id for result in through])
    pairs = [pair for result in through for pair in _pairs(result, names)]
    judged = [_judged(result, names, relevant) for result in through]
    queries = refined([query for query in judged if query.positives])
    none = [
        _none(_pairs(result, names), relevant)
        for result, query in zip(through, judged, strict=True)
        if not query.positives
    ]
    found = consensus(models, pairs, relevant)
    figures: JsonObject = {"consensus": found}
    notes = [_consensus_note(found)]
    files, agreed = retrieval_files(queries, corpus, settings)
    if agreed is not None:
        figures["expert"] = agreed
        notes.append(agreement_note(agreed))
    if pairs:  # what was paid for is kept, also where nothing qualifies
        files |= _labels(pairs, {query.id: query.text for query in judged}, corpus, relevant)
    files |= rejection_file(settings.item_set, results, [*_faults(through, names), *none])
    return Product(
        benchmark=settings.card("labelled by consensus", len(queries), "consensus-labels (CMedTEB's construction)"),
        files=files,
        stages=(stage_count(VERIFY, len(through), (each.reason for each in none)),),
        figures=figures,
        notes=tuple(notes),
        following=(
            "ragrounds retrieve --benchmark beir:{out} --retriever bm25",
            "ragrounds retrieve --benchmark rerank:{out}/sets/rerank.jsonl --retriever bm25",
        ),
    )


def _pairs(result: ItemResult, names: Mapping[str, str]) -> list[LabelledPair]:
    labels: dict[str, list[str | None]] = result.product["labels"]
    query = names[result.question.id]
    return [LabelledPair(query=query, document=id, grades=tuple(grades)) for id, grades in labels.items()]


def _judged(result: ItemResult, names: Mapping[str, str], relevant: str) -> JudgedQuery:
    fates = ((pair.document, fate(pair.grades, relevant)) for pair in _pairs(result, names))
    return by_fate(result.question, names[result.question.id], fates, result.question.text)


def _none(pairs: Sequence[LabelledPair], relevant: str) -> Dropped:
    """A query without a positive, with what became of its passages and the labels of the best one."""
    counts = Counter(fate(pair.grades, relevant) for pair in pairs)
    best = max(pairs, key=lambda pair: sum(grade is not None and grade in relevant for grade in pair.grades))
    said = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    detail = f"{said}; the best, {best.document}: {'/'.join(grade or '-' for grade in best.grades)}"
    return Dropped(id=best.query, stage=VERIFY, reason=NO_POSITIVE, detail=detail)


def _labels(
    pairs: Sequence[LabelledPair], queries: Mapping[str, str], corpus: Corpus, relevant: str
) -> dict[str, Lines]:
    """Every label, those that part the models with their texts, and the pairs of one class as graded similarity."""
    texts = {id: titled(passage) for id, passage in corpus.some({pair.document for pair in pairs}).items()}
    fates = [fate(pair.grades, relevant) for pair in pairs]
    rows = [
        {"query": pair.query, "document": pair.document, "fate": what, "grades": pair.grades}
        for pair, what in zip(pairs, fates, strict=True)
    ]
    parted = [
        {**row, "query_text": queries[pair.query], "text": texts[pair.document]}
        for row, pair in zip(rows, pairs, strict=True)
        if row["fate"] == "dropped"
    ]
    graded = [
        ScoredPair(queries[pair.query], texts[pair.document], pair.similarity)
        for pair, what in zip(pairs, fates, strict=True)
        if what in ("positive", "negative") and pair.similarity is not None
    ]
    files: dict[str, Lines] = {"made/labels.jsonl": json_lines(rows), "made/disagreements.jsonl": json_lines(parted)}
    return files | _similarity("sets/sts.jsonl", graded)


def _similarity(name: str, pairs: Sequence[ScoredPair]) -> dict[str, Lines]:
    """A similarity set, where a correlation can be had of it: three pairs or more, not all of one score."""
    enough = len(pairs) > 2 and len({pair.score for pair in pairs}) > 1
    return {name: json_lines(pairs)} if enough else {}


def _faults(results: Sequence[ItemResult], names: Mapping[str, str]) -> list[Dropped]:
    """Calls that gave no labels: their passages are unlabelled, the query continues."""
    return [
        Dropped(
            id=names[result.question.id],
            stage=LABEL,
            reason=each.get("reason", MALFORMED),
            detail=f"labeller {each['labeller']}, {each['passages']} passages: {each['detail']}",
        )
        for result in results
        for each in result.product["faults"]
    ]


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
