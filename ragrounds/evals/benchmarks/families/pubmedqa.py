"""PubMedQA, labelled set (Jin et al. 2019): the authors' ``ori_pqal.json``, 1,000 questions with yes/no/maybe.

``test_ground_truth.json`` next to it fixes the 500 test questions; the other 500 are the paper's
cross-validation part. As in MIRAGE, the abstract is not part of the question: it is the gold document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct, field

from ragrounds.base.files import broken, convert, quote_value, read_json, shape
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

FILE = "ori_pqal.json"
_TEST = "test_ground_truth.json"
OPTIONS = {"A": "yes", "B": "no", "C": "maybe"}
"""Options in MIRAGE's order."""
_LETTER = {"yes": "A", "no": "B", "maybe": "C"}


class _Entry(Struct):
    QUESTION: str
    final_decision: Literal["yes", "no", "maybe"]
    CONTEXTS: list[str] = field(default_factory=list)
    YEAR: str | None = None


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the test questions (``pubmedqa/test``), those for cross-validation (``pubmedqa/cv``), or all.

    Raises:
        UserError: a broken file, or test labels that do not fit the questions.
    """
    path = source.file(FILE, f"data/{FILE}")
    entries = shape(read_json(path), dict[str, dict[str, Any]], path)
    test_path = path.with_name(_TEST)
    labels = shape(read_json(test_path), dict[str, str], test_path)
    for pmid, label in labels.items():
        if pmid not in entries:
            raise broken(test_path, f"{path.name} has no such question", f"record {quote_value(pmid)}")
        if entries[pmid].get("final_decision") != label:
            raise broken(test_path, f"the label differs from the one in {path.name}", f"record {quote_value(pmid)}")
    for pmid, value in entries.items():
        item = _item(pmid, convert(value, _Entry, path, f"record {quote_value(pmid)}"), pmid in labels)
        if source.dataset in ("", item.question.benchmark.rpartition("/")[2]):
            yield item


def _item(pmid: str, entry: _Entry, test: bool) -> Item:
    question = Question(
        id=f"pubmedqa/{pmid}",
        benchmark=f"pubmedqa/{'test' if test else 'cv'}",
        text=entry.QUESTION,
        split="test" if test else "cv",
        options=OPTIONS,
        metadata={"year": entry.YEAR} if entry.YEAR else {},
    )
    return Item(question, Gold(question_id=question.id, answer=_LETTER[entry.final_decision], documents=(pmid,)))


FAMILY = Family(name="pubmedqa", items=items, file=f"{FILE} with {_TEST} in one folder", needs=(FILE, _TEST))
