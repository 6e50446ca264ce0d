"""The benchmark of `relevance-mining`: BEIR, R2MED, a reranking set, every grade, the experts' sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.build.card import stage_count
from ragrounds.build.expert_sheets import agreement_note
from ragrounds.build.files import Product, json_lines, rejection_file
from ragrounds.build.items import Dropped
from ragrounds.build.judged_sets import (
    Corpus,
    JudgedQuery,
    SetSettings,
    by_fate,
    judged_r2med,
    query_ids,
    refined,
    retrieval_files,
)
from ragrounds.build.outcome import JsonObject
from ragrounds.build.pipeline import ItemResult, kept_results
from ragrounds.build.relevance_mining import DocumentFate, GradeThresholds, fate
from ragrounds.build.stages import MALFORMED, reason_counts

VERIFY, R2MED = "verify", "r2med"
NO_POSITIVE = "no verified positive"
NO_GRADE = "no grade could be read"


class MinedQuestion(Struct, frozen=True, kw_only=True):
    """A question with its graded candidates."""

    judged: JudgedQuery
    grades: tuple[JsonObject, ...]
    fates: tuple[DocumentFate, ...]
    reasoning: str


def mining_product(
    results: Sequence[ItemResult], corpus: Corpus, settings: SetSettings, thresholds: GradeThresholds
) -> Product:
    """The product: questions with a verified positive, the corpus without what is ambiguous.

    Raises:
        UserError: the experts' sheet cannot be read.
    """
    mined = _mined(results, thresholds)
    dropped = [_dropped(each) for each in mined if not each.judged.positives]
    queries = refined([each.judged for each in mined if each.judged.positives])
    card = settings.card("mined by relevance", len(queries), "relevance-mining (R2MED's construction)")
    figures, ungraded = _figures(mined, results), _ungraded(mined)
    notes = [_documents_note(figures, ungraded)]
    files, agreed = retrieval_files(queries, corpus, settings)
    if queries:
        files |= {f"{R2MED}/{name}": lines for name, lines in judged_r2med(queries, corpus).items()}
    if agreed is not None:
        figures["expert"] = agreed
        notes.append(agreement_note(agreed))
    if mined:  # what was paid for is kept, also where nothing qualifies
        files["made/grades.jsonl"] = json_lines(_rows(mined))
    return Product(
        benchmark=card,
        files=files | rejection_file(settings.item_set, results, [*ungraded, *dropped]),
        sets={R2MED: replace(card, name=f"r2med/{settings.name}")} if queries else {},
        stages=(stage_count(VERIFY, len(mined), (each.reason for each in dropped)),),
        figures=figures,
        notes=tuple(notes),
        following=(
            "ragrounds retrieve --benchmark beir:{out} --retriever bm25",
            f"ragrounds data add r2med/{settings.name} {{out}}/r2med",
        ),
    )


def _mined(results: Sequence[ItemResult], thresholds: GradeThresholds) -> list[MinedQuestion]:
    through = kept_results(results)
    names = query_ids([result.question.id for result in through])
    found: list[MinedQuestion] = []
    for result in through:
        product = result.product
        grades = tuple(product["grades"])
        fates = tuple(fate(each, thresholds) for each in grades)
        documents = zip((each["id"] for each in grades), fates, strict=True)
        name = names[result.question.id]
        judged = by_fate(result.question, name, documents, product["query"], product["answer"])
        found.append(MinedQuestion(judged=judged, grades=grades, fates=fates, reasoning=product["reasoning"]))
    return found


def _dropped(mined: MinedQuestion) -> Dropped:
    counts = Counter(mined.fates)
    reason = NO_GRADE if counts["ungraded"] == len(mined.fates) else NO_POSITIVE
    detail = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    return Dropped(id=mined.judged.id, stage=VERIFY, reason=reason, detail=detail)


def _ungraded(mined: Sequence[MinedQuestion]) -> list[Dropped]:
    """Documents without a grade; their question continues."""
    return [
        Dropped(
            id=question.judged.id,
            stage="grade",
            reason=each.get("reason", MALFORMED),
            detail=f"{each['id']}: {each['fault']}",
        )
        for question in mined
        for each in question.grades
        if "fault" in each
    ]


def _figures(mined: Sequence[MinedQuestion], results: Sequence[ItemResult]) -> JsonObject:
    fates: Counter[str] = Counter(each for question in mined for each in question.fates)
    known = [
        what for question in mined for each, what in zip(question.grades, question.fates, strict=True) if each["known"]
    ]
    order: tuple[DocumentFate, ...] = ("positive", "negative", "dropped", "ungraded")
    return {
        "documents": {"graded": fates.total(), **{name: fates[name] for name in order}},
        "initial_positives": {"graded": len(known), **{name: known.count(name) for name in order}},
        "right_of_panel": _panel(results),
    }


def _panel(results: Sequence[ItemResult]) -> dict[str, dict[str, int]]:
    """The panel's role → how many of the kept questions it answered right, wrong, unreadably."""
    table: dict[str, Counter[str]] = {}
    for result in kept_results(results):
        right = result.gold.answer
        for role, said in (result.product.get("panel") or {}).items():
            word = "unreadable" if said is None else "right" if said == right else "wrong"
            table.setdefault(role, Counter())[word] += 1
    return {role: dict(counts) for role, counts in table.items()}


def _documents_note(figures: JsonObject, ungraded: Sequence[Dropped]) -> str:
    counts = figures["documents"]
    return (
        f"{counts['graded']:,} documents were put to the grader: {counts['positive']:,} positive, "
        f"{counts['negative']:,} negative, {counts['dropped']:,} ambiguous and left out, {counts['ungraded']:,} "
        f"without a grade{reason_counts(each.reason for each in ungraded)}."
    )


def _rows(mined: Sequence[MinedQuestion]) -> list[JsonObject]:
    return [
        {"query": question.judged.id, "reasoning": question.reasoning, "document": each["id"], "fate": what, **each}
        for question in mined
        for each, what in zip(question.grades, question.fates, strict=True)
    ]
