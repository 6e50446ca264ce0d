"""The benchmark of `consensus-labels`: BEIR, a reranking set, two similarity sets, every label, a report of
disagreements, the experts' sheet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from ragrounds.build.card import stage_count
from ragrounds.build.consensus_labels import SynonymTriple, TripleSentences, synonym_of, triple_pair
from ragrounds.build.files import Lines, Product, json_lines, rejection_file
from ragrounds.build.items import Dropped, ItemSet
from ragrounds.build.judged_sets import (
    Corpus,
    ExpertReview,
    JudgedQuery,
    ScoredPair,
    agreement_note,
    query_ids,
    refined,
    retrieval_card,
    retrieval_files,
    titled,
)
from ragrounds.build.outcome import REFUSED, JsonObject
from ragrounds.build.pipeline import ItemResult, kept_results
from ragrounds.build.relevance_labels import Consensus, LabelledPair, consensus, disagreement, fate
from ragrounds.build.stages import MALFORMED, reason_counts

VERIFY, LABEL, SYNONYMS = "verify", "label", "synonyms"
NO_POSITIVE = "no passage that all models find relevant"


class ConsensusSettings(Struct, frozen=True, kw_only=True):
    """What the finish goes by."""

    name: str
    """Of the benchmark."""
    license: str
    item_set: ItemSet
    models: tuple[str, ...]
    """The labellers, in their order."""
    relevant: str
    expert: ExpertReview
    reranked: int = 0
    """Documents a side in the reranking set; 0: all."""


def consensus_product(results: Sequence[ItemResult], corpus: Corpus, settings: ConsensusSettings) -> Product:
    """The product: queries with a positive by consensus, the corpus without what is ambiguous.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    through = kept_results(results)
    names = query_ids([result.question.id for result in through])
    pairs = [pair for result in through for pair in _pairs(result, names)]
    judged = [_judged(result, names, settings.relevant) for result in through]
    queries = refined([query for query in judged if query.positives])
    none = [
        _none(_pairs(result, names), settings.relevant)
        for result, query in zip(through, judged, strict=True)
        if not query.positives
    ]
    found = consensus(settings.models, pairs, settings.relevant)
    parted = disagreement(settings.models, pairs, settings.relevant)
    triples, faulty = _triples(through, names)
    card = retrieval_card(
        f"beir/{settings.name}",
        f"{settings.name}: retrieval labelled by consensus",
        settings.item_set.items.card.source,
        len(queries),
        license=settings.license,
        language=settings.item_set.items.questions[0].language,
        note="Built by consensus-labels (CMedTEB's construction); card.json says how.",
    )
    figures: JsonObject = {"consensus": found, "disagreement": parted}
    notes = [_consensus_note(found)]
    if triples or faulty:
        asked, why = len(triples) + len(faulty), Counter(each.reason for each in faulty)
        figures["triples"] = {
            "asked": asked,
            "made": len(triples),
            "malformed": why[MALFORMED],
            "refused": why[REFUSED],
        }
        notes.append(
            f"Of {asked:,} queries with a term that has a synonym, {len(triples):,} made triples"
            f"{reason_counts(each.reason for each in faulty)}."
        )
    files: dict[str, Lines] = {}
    if queries:
        files, agreed = retrieval_files(
            queries, corpus, settings.expert, settings.item_set.seed, most=settings.reranked
        )
        if agreed is not None:
            figures["expert"] = agreed
            notes.append(agreement_note(agreed))
    if pairs:  # what was paid for is kept, also where nothing qualifies
        files |= _labels(pairs, {query.id: query.text for query in judged}, corpus, settings.relevant)
    files |= _triple_files(triples, settings.item_set.seed)
    files |= rejection_file(settings.item_set, results, [*_faults(through, names), *none, *faulty])
    return Product(
        benchmark=card,
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
    by_fate: dict[str, list[str]] = {}
    for pair in _pairs(result, names):
        by_fate.setdefault(fate(pair.grades, relevant), []).append(pair.document)
    return JudgedQuery(
        id=names[result.question.id],
        text=result.question.text,
        group=result.question.group,
        positives=tuple(by_fate.get("positive", ())),
        negatives=tuple(by_fate.get("negative", ())),
        dropped=(*by_fate.get("dropped", ()), *by_fate.get("unlabelled", ())),
    )


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


def _triple_files(triples: Sequence[SynonymTriple], seed: int) -> dict[str, Lines]:
    if not triples:
        return {}
    pairs = [triple_pair(triple, seed) for triple in triples]
    return {"sets/triples.jsonl": json_lines(triples), **_similarity("sets/synonyms.jsonl", pairs)}


def _similarity(name: str, pairs: Sequence[ScoredPair]) -> dict[str, Lines]:
    """A similarity set, where a correlation can be had of it: three pairs or more, not all of one score."""
    enough = len(pairs) > 2 and len({pair.score for pair in pairs}) > 1
    return {name: json_lines(pairs)} if enough else {}


def _triples(results: Sequence[ItemResult], names: Mapping[str, str]) -> tuple[list[SynonymTriple], list[Dropped]]:
    triples: list[SynonymTriple] = []
    faulty: list[Dropped] = []
    for result in results:
        pair, product = synonym_of(result.question), result.product
        if pair is None:
            continue
        if "triple" in product:
            sentences = msgspec.convert(product["triple"], TripleSentences)
            triples.append(
                SynonymTriple(
                    query=result.question.text,
                    term=pair.term,
                    synonym=pair.synonym,
                    **msgspec.structs.asdict(sentences),
                )
            )
        else:
            why, detail = product.get("triple_reason", MALFORMED), product["triple_fault"]
            faulty.append(Dropped(id=names[result.question.id], stage=SYNONYMS, reason=why, detail=detail))
    return triples, faulty


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
