"""Claims and citations beside RAGChecker's and ALCE's programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ragrounds.evals.scorers.citations import CitationFigures, CitedSentence, published_citations, weigh_citations
from ragrounds.evals.scorers.claim_record import ClaimRecord, Verdicts
from ragrounds.evals.scorers.ragchecker import CLAIM_METHOD, RagChecker
from tests.golden.cases import Case, Comparison, near

METRICS = {one.metric.__name__: one for one in CLAIM_METHOD.scorers if isinstance(one, RagChecker)}


def _verdicts(labels: Sequence[str | None]) -> Verdicts:
    return tuple(None if label is None else label == "Entailment" for label in labels)


def _record(case: dict[str, Any]) -> ClaimRecord:
    return ClaimRecord(
        by_gold=_verdicts(case["answer2response"]),
        by_answer=_verdicts(case["response2answer"]),
        by_passages=tuple(map(_verdicts, case["retrieved2response"])),
        gold_by_passages=tuple(map(_verdicts, case["retrieved2answer"])),
    )


def _figure(metric: str, record: ClaimRecord) -> float | str | None:
    """What a metric makes of a record; a missing verdict is a TypeError of the program's, and a missing value here."""
    try:
        value = METRICS[metric].figure(record)
    except ValueError:
        return "raises:ValueError"
    return "raises:TypeError" if value is None else value


def _same(ours: float | str | None, theirs: float | str | None) -> bool:
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    return near(ours, theirs)


def _ragchecker(case: Case) -> bool:
    record = _record(case)
    return len(case["metrics"]) == len(METRICS) == 11 and all(
        _same(_figure(name, record), value) for name, value in case["metrics"].items()
    )


def _values(metric: str, records: Sequence[ClaimRecord]) -> list[float]:
    """A metric's values.

    Raises:
        ValueError: one is missing.
    """
    made = [METRICS[metric].figure(record) for record in records]
    if None in made:
        raise ValueError(f"{metric}: a value is missing")
    return [value for value in made if value is not None]


def _aggregate(case: Case) -> bool:
    records = [_record(one) for one in case["results"]]
    means = {name: sum(_values(name, records)) / len(records) for name in METRICS}
    printed = {name: value for group in case["metrics"].values() for name, value in group.items()}
    return all(near(means[name], value) for name, value in case["unrounded"].items()) and all(
        round(means[name] * 100, 1) == value for name, value in printed.items()
    )


def weighed(item: dict[str, Any], sentences: Sequence[CitedSentence]) -> tuple[CitationFigures, list[list[Any]]]:
    """The figures of one answer, with what was asked of the verifier, which is the case's rule."""
    asked: list[list[Any]] = []
    weighing, said = weigh_citations(sentences), None
    try:
        while True:
            number, places = weighing.send(said)
            documents = [place % item["n_docs"] for place in places]
            rules = item["rules"][number : number + 1]
            said = any(set(one) <= {*documents} for rule in rules for one in rule["support"]) and not any(
                {*documents} & {*rule["blockers"]} for rule in rules
            )
            asked.append([number, documents, int(said)])
    except StopIteration as done:
        return done.value, asked


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2)


def _alce(case: Case) -> bool:
    recall, precision, sums, same = list[float](), list[float](), Counter[str](), True
    for item in case["items"]:
        read = [published_citations(one, item["n_docs"], case["at_most_citations"]) for one in item["sentences"]]
        made, asked = weighed(item, read)
        same = same and asked == item["nli_calls"] and [one.text for one in read] == item["claims"]
        if made.recall is None or made.precision is None:
            same = same and item["citation_rec"] is item["citation_prec"] is None
            continue
        same = same and near(made.recall * 100, item["citation_rec"])
        same = same and near(made.precision * 100, item["citation_prec"])
        recall.append(made.recall * 100)
        precision.append(made.precision * 100)
        sums.update(n=made.sentences, m=made.several, s=made.several_entailed, o=made.unneeded)
    for values, wanted in ((recall, case["citation_rec"]), (precision, case["citation_prec"])):
        same = same and near(sum(values) / len(values) if values else None, wanted)
    pairs = ((sums["m"], sums["n"]), (sums["s"], sums["m"]), (sums["o"], sums["s"]))
    printed = [_percent(*pair) for pair in pairs] if sums["s"] else None
    return same and printed == case["printed_percent_multi_supported_overcite"]


def _removed(case: Case) -> bool:
    read = published_citations(case["text"], 99, None)
    return read.text == case["result"].strip() and list(read.places) == case["citations_found"]


COMPARISONS = (
    Comparison("ragchecker", "ragrounds judge --kind claims", True, _ragchecker),
    Comparison("ragchecker_aggregate", "ragrounds judge --kind claims", True, _aggregate, what="means"),
    Comparison("alce_citations", "ragrounds judge --kind citations-published", True, _alce),
    Comparison("alce_remove_citations", "ragrounds judge --kind citations-published", True, _removed),
)
