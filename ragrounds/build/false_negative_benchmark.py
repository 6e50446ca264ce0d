"""The figures of `false-negatives`, and the benchmark with the labels that it missed.

The folder's ``qrels/test.tsv`` holds the benchmark's judgements and, at grade 1, every false negative that was found;
``qrels/original.tsv`` the judgements alone, of the same queries. Nothing is taken away: labels that the grades
contradict stand in ``grades.jsonl``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from ragrounds.build.expert_sheets import ExpertReview, FinalLabel, agreement_note, reviewed
from ragrounds.build.false_negative_estimate import NO_GRADE, GradedQuery, MissingLabels, estimate_missing
from ragrounds.build.files import Lines, Product, beir_files, json_lines, qrels_lines, rejection_file
from ragrounds.build.items import Dropped, ItemSet
from ragrounds.build.judged_sets import retrieval_card, titled
from ragrounds.build.outcome import JsonObject
from ragrounds.build.pipeline import ItemResult, kept_results
from ragrounds.build.stages import MALFORMED
from ragrounds.errors import UserError
from ragrounds.evals.retrieval.query_sets import QuerySet
from ragrounds.evals.stats import Estimate
from ragrounds.records import Passage
from ragrounds.tools.corpora import corpus_source, passages

GRADE = "grade"


class FalseNegativeBenchmark(Struct, frozen=True, kw_only=True):
    """Makes the figures and the benchmark of one set of queries."""

    name: str
    """Of the benchmark."""
    asked: QuerySet
    benchmark: str
    """What was named: ``beir:FOLDER``."""
    item_set: ItemSet
    depth: int
    """Documents that are looked for."""
    relevant: str
    expert: ExpertReview

    def __call__(self, results: Sequence[ItemResult]) -> Product:
        """See :data:`ragrounds.build.files.Finish`.

        Raises:
            UserError: an experts' sheet that cannot be read, or is not of these grades.
        """
        queries = [_graded(result) for result in kept_results(results)]
        lost = [_why_lost(result) for result in results if result.status != "kept"]
        try:
            found = estimate_missing(queries, self.relevant, depth=self.depth, lost=lost, seed=self.item_set.seed)
        except ValueError:
            found = None
        missed = {query.query: _missed(query, self.relevant) for query in queries}
        labels = [
            FinalLabel(query=query, document=document, relevant=True)
            for query, all_ in missed.items()
            for document in all_
        ]
        # A sample of the false negatives for experts (the paper: 500, of which they confirmed 92 %).
        sheet, agreed = reviewed(self.expert, labels, self.asked.queries, self._texts, self.item_set.seed)
        notes = [agreement_note(agreed)] if agreed else []
        figures: JsonObject = {"experts": agreed} if agreed else {}
        if found:
            figures |= {"missing": msgspec.to_builtins(found), "relevant": self.relevant}
            notes = [*_said(found, self.item_set.passed), *notes]
        else:
            notes = ["There are no figures: no query has a grade.", *notes]
        bare = [query.query for query in queries if not any(query.grades.values())]
        later = [*_faults(results), *(Dropped(id=query, stage=GRADE, reason=NO_GRADE) for query in bare)]
        files: dict[str, Lines] = dict(self._files(queries, missed)) if queries else {}
        return Product(
            benchmark=retrieval_card(
                f"beir/{self.name}",
                f"{self.asked.name} with the labels that it missed",
                f"built from {self.asked.name} by `ragrounds build false-negatives`",
                len(queries),
                language=self.item_set.items.questions[0].language,
                note="The added labels come from what one retriever found: it gains more by them than others do.",
            ),
            files=files | sheet | rejection_file(self.item_set, results, later),
            figures=figures,
            notes=tuple(notes),
            following=(
                "ragrounds retrieve --benchmark beir:{out} --split original --retriever bm25",
                "ragrounds retrieve --benchmark beir:{out} --retriever bm25",
                "ragrounds data add beir/NAME {out}",
            ),
        )

    def _files(self, queries: Sequence[GradedQuery], missed: Mapping[str, Sequence[str]]) -> dict[str, Lines]:
        judged = {query.query: dict(self.asked.judgements[query.query]) for query in queries}
        mended = {id: {**old, **dict.fromkeys(missed[id], 1)} for id, old in judged.items()}
        texts = {query.query: self.asked.queries[query.query] for query in queries}
        documents = ((each.document, each.title, each.text) for each in self._documents())
        return {
            **beir_files(documents, texts, mended),
            "qrels/original.tsv": qrels_lines(judged),
            "grades.jsonl": json_lines(self._rows(queries)),
        }

    def _rows(self, queries: Sequence[GradedQuery]) -> Iterator[JsonObject]:
        """Every pair."""
        for query in queries:
            for rank, document in enumerate(query.candidates, 1):
                if document in query.grades:
                    grade = query.grades[document]
                    relevant = None if grade is None else grade in self.relevant
                    labelled = document in query.labelled
                    yield {
                        "query": query.query,
                        "document": document,
                        "rank": rank,
                        "grade": grade,
                        "relevant": relevant,
                        "labelled": labelled,
                        "false_negative": None if relevant is None else relevant and not labelled,
                        "false_positive": None if relevant is None else labelled and not relevant,
                    }

    def _documents(self) -> Iterator[Passage]:
        return (passage for passage, _ in passages(corpus_source(self.benchmark)))

    def _texts(self, wanted: Collection[str]) -> dict[str, str]:
        """The texts of documents."""
        return {each.document: titled(each) for each in self._documents() if each.document in wanted}


def check_documents(asked: QuerySet, benchmark: str) -> None:
    """See before anything is paid that the documents can be read again for the new folder.

    Raises:
        UserError: the judged documents are not in the benchmark's folder.
    """
    wanted = {document for judged in asked.judgements.values() for document in judged}
    if wanted and not any(passage.document in wanted for passage, _ in passages(corpus_source(benchmark))):
        raise UserError(f"{benchmark} holds none of the documents that its judgements name.")


def _graded(result: ItemResult) -> GradedQuery:
    product = result.product
    return GradedQuery(
        query=result.question.id,
        cluster=result.question.cluster,
        candidates=tuple(product["candidates"]),
        grades=dict(product["grades"]),
        labelled=frozenset(result.gold.documents),
    )


def _missed(query: GradedQuery, relevant: str) -> list[str]:
    return [
        document
        for document in query.candidates
        if document not in query.labelled and (grade := query.grades.get(document)) is not None and grade in relevant
    ]


def _why_lost(result: ItemResult) -> str:
    return result.outcome.reason if result.outcome else result.status


def _faults(results: Sequence[ItemResult]) -> list[Dropped]:
    """Calls that gave no grades: their documents have none, the query continues."""
    return [
        Dropped(
            id=result.question.id,
            stage=GRADE,
            reason=each.get("reason", MALFORMED),
            detail=f"{each['passages']} documents: {each['detail']}",
        )
        for result in kept_results(results)
        for each in result.product["faults"]
    ]


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


def _figure(estimate_missing: Estimate) -> str:
    return f"{estimate_missing.value:.2f} ({_ends(estimate_missing, 1, 2)})"


def _ends(figure: Estimate, times: int, digits: int) -> str:
    if figure.low is None or figure.high is None:
        return "too few queries for an interval"
    return f"{figure.low * times:,.{digits}f} to {figure.high * times:,.{digits}f}"
