"""What must come of `tests.extensions.construction.annotator`'s answers, worked out without the pipelines."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ragrounds.base.records import Passage, Question
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.tools.retriever import open_searcher
from tests.extensions.construction.annotator import grades, opened, option, reasoning, refused, spoilt

Fates = dict[str, list[str]]
"""What becomes of a pair → the documents."""


class Committee:
    """Retrievers asked one after the other."""

    def __init__(self, specs: Sequence[str], corpus: str, home: Path) -> None:
        self.members = [open_searcher(spec, corpus, home) for spec in specs]
        self.texts: dict[str, str] = {}

    def candidates(self, views: Sequence[str], depth: int, most: int, known: Sequence[Passage] = ()) -> list[str]:
        """The passages that most rankings hold, by the sum of 1/(60 + rank), then by id; the known ones first."""
        times: Counter[str] = Counter()
        scores: dict[str, float] = {}
        for view in views:
            for member in self.members:
                found = asyncio.run(member.search(view, depth))
                self.texts |= {passage.id: shown(passage) for passage in found}
                times.update(passage.id for passage in found)
                for rank, passage in enumerate(found, 1):
                    scores[passage.id] = scores.get(passage.id, 0) + 1 / (60 + rank)
        self.texts |= {passage.id: shown(passage) for passage in known}
        first = [passage.id for passage in known]
        ranked = sorted(times, key=lambda id: (-times[id], -round(scores[id], 12), id))
        return first + [id for id in ranked if id not in first][:most]

    def document(self, id: str) -> list[Passage]:
        return self.members[0].document(id)  # type: ignore[attr-defined, no-any-return]


def shown(passage: Passage) -> str:
    return (f"{passage.title}\n{passage.text}" if passage.title else passage.text).strip()


class Mined:
    """The stages of `relevance-mining`, one question after the other."""

    def __init__(
        self, benchmark: Benchmark, questions: Sequence[Question], committee: Committee, panel: Sequence[str],
        depth: int, most: int, positive: int, negative: int, one_in: int = 0,
    ) -> None:  # fmt: skip
        self.one_in = one_in
        """Of so many grades the content filter meets one; 0: none."""
        self.refused: list[tuple[str, str]] = []
        """Question and document of these."""
        self.positive, self.negative = positive, negative
        self.ends: dict[str, tuple[str, str]] = {}
        """Question → stage and reason, where it was rejected."""
        self.judged: dict[str, Fates] = {}
        for question in questions:
            gold = benchmark.golds[question.id]
            answer = question.options.get(gold.answer) or gold.answer or "; ".join(each[0] for each in gold.facts)
            end = self._easy(question, gold.answer, panel) if question.options and panel else None
            text = question.text
            if end is None and question.options:
                if spoilt("open", text.strip()) is not None:
                    end = ("open", "malformed output")
                elif not (text := opened(text.strip(), answer)):
                    end = ("open", "it needs its options")
            if end is None and spoilt("reason", text.strip()) is not None:
                end = ("reason", "malformed output")
            if end is not None:
                self.ends[question.id] = end
                continue
            text, answer = text.strip(), answer.strip()
            path = reasoning(text, answer)
            known = [passage for id in gold.documents for passage in committee.document(id)]
            found = committee.candidates((text, answer, path), depth, most, known)
            self.judged[question.id] = fates = {}
            for id in found:
                fates.setdefault(self._fate(text, answer, path, committee.texts[id]), []).append(id)
                if refused(one_in, "grader", text, answer, path, committee.texts[id]):
                    self.refused.append((question.id, id))
            if "positive" not in fates:
                self.ends[question.id] = ("verify", "no verified positive")

    def _easy(self, question: Question, right: str, panel: Sequence[str]) -> tuple[str, str] | None:
        unread = sum(spoilt("option", model, question.text) is not None for model in panel)
        hits = sum(
            spoilt("option", model, question.text) is None and option(model, question.text, question.options) == right
            for model in panel
        )
        if hits > 1:
            return "difficulty", "the panel answers it"
        return ("difficulty", "malformed output") if hits + unread > 1 else None

    def _fate(self, question: str, answer: str, path: str, document: str) -> str:
        if spoilt("grade", question, document) is not None or refused(
            self.one_in, "grader", question, answer, path, document
        ):
            return "ungraded"
        given = grades(question, answer, path, document).values()
        return "positive" if min(given) >= self.positive else "negative" if max(given) <= self.negative else "dropped"

    def stages(self) -> dict[str, tuple[int, int, dict[str, int]]]:
        """Stage → entered, kept, dropped for what reasons."""
        lines = {}
        entered = len(self.ends | self.judged)
        for stage in ("difficulty", "open", "reason", "candidates", "grade", "verify"):
            dropped = Counter(reason for where, reason in self.ends.values() if where == stage)
            lines[stage] = (entered, entered - dropped.total(), dict(dropped))
            entered -= dropped.total()
        return lines

    def documents(self) -> dict[str, int]:
        """Fate → documents, of all questions."""
        counts = Counter(fate for fates in self.judged.values() for fate, ids in fates.items() for _ in ids)
        order = ("positive", "negative", "dropped", "ungraded")
        return {"graded": counts.total(), **{fate: counts[fate] for fate in order}}


def judged_by_all(grades: Sequence[str | None], relevant_grades: str) -> str:
    """What becomes of a pair."""
    if None in grades:
        return "unlabelled"
    relevant = [grade in set(relevant_grades) for grade in grades]
    return "positive" if all(relevant) else "dropped" if any(relevant) else "negative"


def kappa(tables: Sequence[Sequence[int]]) -> float:
    """Fleiss' kappa from the counts of each category, item by item, in fractions."""
    raters, items = sum(tables[0]), len(tables)
    same = sum(Fraction(sum(n * (n - 1) for n in table), raters * (raters - 1)) for table in tables) / items
    chance = sum(Fraction(sum(column), items * raters) ** 2 for column in zip(*tables, strict=True))
    return float((same - chance) / (1 - chance))


def counted(card: dict[str, Any]) -> dict[str, tuple[int, int, dict[str, int]]]:
    """A card's lines, as :meth:`Mined.stages` gives them."""
    return {line["stage"]: (line["entered"], line["kept"], line["dropped"]) for line in card["made"]["stages"]}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
