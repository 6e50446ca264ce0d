"""The benchmark of `case-questions`: OGCaReBench's form, its store of reports, and a sheet for experts (OGCaReBench,
Section 3.1, step 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.build.card import stage_count
from ragrounds.build.case_reports import ReportFilters, ReportSource, store_of
from ragrounds.build.expert_sheets import SheetRatings, read_ratings, sheet_files, sheet_lines
from ragrounds.build.files import Lines, Product, beir_files, json_lines, rejection_file
from ragrounds.build.items import Dropped, ItemSet
from ragrounds.build.outcome import JsonObject
from ragrounds.build.pipeline import ItemResult, kept_results
from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.stats.agreement import krippendorff_alpha

EXPERTS = "experts"
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
    """What experts are asked, or have said."""

    sheet: Path | None = None
    """The sheet that was filled in."""
    raters: int = 1
    least: int = 4
    """A pair is kept where every rating that it has is at least this."""

    def fault(self, ratings: Sequence[str | None]) -> tuple[str, str]:
        """Why a pair is dropped, and the case itself; empty texts: it is kept."""
        given = [int(rating) for rating in ratings if rating is not None]
        if not given:
            return NOT_RATED, "its cells are empty" if ratings else "it is not in the sheet, or with other texts"
        return ("", "") if min(given) >= self.least else (f"rated below {self.least}", ", ".join(map(str, given)))


class CaseBenchmark(Struct, frozen=True, kw_only=True):
    """Makes the benchmark of one intake."""

    item_set: ItemSet
    reports: ReportSource
    out: Path
    rating: ExpertRating = ExpertRating()
    license: str = "not known"
    filters: ReportFilters = ReportFilters()
    """What the intake went by, for the card."""
    checks_itself: bool = False
    """The model that checks the rewritten questions is the one that wrote them."""

    def __call__(self, results: Sequence[ItemResult]) -> Product:
        """See :data:`ragrounds.build.files.Finish`.

        Raises:
            UserError: the sheet of ratings is broken, or is of other questions.
        """
        pairs = kept_results(results)
        if self.rating.sheet is None:
            return self._product(pairs, results, (), None)
        texts = {id: dict(zip(_SHOWN, cells, strict=True)) for id, cells in _rows(pairs).items()}
        ratings = read_ratings(self.rating.sheet, texts, SCALE, texts=texts)
        nobody: tuple[str | None, ...] = ()
        faults = {pair.question.id: self.rating.fault(ratings.items.get(pair.question.id, nobody)) for pair in pairs}
        dropped = [
            Dropped(id=id, stage=EXPERTS, reason=reason, detail=detail)
            for id, (reason, detail) in faults.items()
            if reason
        ]
        good = [pair for pair in pairs if not faults[pair.question.id][0]]
        return self._product(good, results, dropped, ratings)

    def _product(
        self,
        pairs: Sequence[ItemResult],
        results: Sequence[ItemResult],
        dropped: Sequence[Dropped],
        ratings: SheetRatings | None,
    ) -> Product:
        card = Card(
            name=self.item_set.items.name,
            title=f"Case questions from {self.reports.name}",
            task="long",
            source=f"built from {self.reports.name} by `ragrounds build case-questions`",
            license=self.license,
            language=_language(pairs),
            size=len(pairs),
            metric="share of equivalent answers",
            headline=("equivalent",),
            columns=("rouge-l",),
            note="Equivalence needs a judge. The answers are verbatim from the timelines that a model made.",
        )
        files = rejection_file(self.item_set, results, dropped)
        notes: list[str] = []
        figures: JsonObject = {"filters": msgspec.to_builtins(self.filters)}
        if self.checks_itself:
            notes.append("The rewritten questions were checked by the model that wrote them: --checker names another.")
        if ratings is None and pairs:
            sheet = sheet_files(self.out, sheet_lines(_SHOWN, _rows(pairs), self.rating.raters), INSTRUCTIONS)
            files |= sheet
            notes.append(f"No expert has rated these {len(pairs):,} pairs yet: {next(iter(sheet))} is for them.")
        if ratings is not None:
            figures |= {
                "raters": len(ratings.raters),
                "rated": sum(any(given) for given in ratings.items.values()),
                "least": self.rating.least,
                "alpha": _alpha(ratings),
            }
        return Product(
            benchmark=card,
            files={**(self._files(pairs) if pairs else {}), **files},
            stages=(stage_count(EXPERTS, len(pairs) + len(dropped), (each.reason for each in dropped)),)
            if ratings is not None
            else (),
            figures=figures,
            notes=tuple(notes),
            following=(
                "ragrounds data add ogcarebench/NAME {out}",
                "ragrounds run --benchmark ogcarebench:{out} --corpus beir:{out} --agent vanilla_rag --model …",
                "ragrounds retrieve --benchmark beir:{out} --retriever bm25",
            ),
        )

    def _files(self, pairs: Sequence[ItemResult]) -> dict[str, Lines]:
        numbered = {str(number): pair for number, pair in enumerate(pairs, 1)}
        judged = {number: {pair.gold.documents[0]: 1} for number, pair in numbered.items()}
        queries = {number: str(pair.product["question"]) for number, pair in numbered.items()}
        return {
            "ogcarebench.jsonl": json_lines(_row(pair) for pair in pairs),
            **beir_files(store_of(self.reports), queries, judged),
        }


_SHOWN = ("question", "answer")
"""Columns of the sheet."""


def _rows(pairs: Sequence[ItemResult]) -> dict[str, tuple[str, str]]:
    """What the sheet shows of each pair."""
    return {pair.question.id: (str(pair.product["question"]), str(pair.product["answer"])) for pair in pairs}


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


def _language(pairs: Sequence[ItemResult]) -> str:
    languages = {pair.question.language for pair in pairs}
    return languages.pop() if len(languages) == 1 else "en"


def _alpha(ratings: SheetRatings) -> float | None:
    """Krippendorff's alpha of several raters, by intervals; ``None``: not defined."""
    try:
        return krippendorff_alpha(list(ratings.items.values()), "interval")
    except ValueError:
        return None
