"""RAGChecker's scores beside people's preferences, and verifiers beside people's labels of real pairs.

* RAGChecker's differences between two answers against the label that a person gave the pair (its `meta_evaluation`):
  Pearson's and Spearman's correlation, as the paper has them. The rows of one pair are two annotators'; the interval is
  a bootstrap over pairs.
* A verifier against SciFact's labels (train claims; the text is the cited abstract) and the majority of K-QA's
  physicians (the text is a recorded answer), in the words of `ragrounds judge … --labelled FILE`.

    python perf/claims.py DATA [--verifier lexical] [--write perf/claims.md]
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ragrounds.evals.judges.verifiers import BY_NAME, LABELS, confusion  # noqa: E402

ASPECTS = ("correctness", "completeness", "overall")
Pair = tuple[str, str, str]
"""Text, claim, label."""


def correlations(file: Path) -> dict[str, tuple[float, float]]:
    """Aspect → Pearson's and Spearman's correlation, times 100, of RAGChecker's differences with people's labels."""
    rows = _rows(file)
    return {aspect: _both(*_columns(rows, aspect)) for aspect in ASPECTS}


def intervals(file: Path, resamples: int = 2_000) -> dict[str, tuple[float, float]]:
    """Aspect → the 95 % interval of Pearson's correlation, by a bootstrap over pairs of answers."""
    rows, drawn = _rows(file), np.random.default_rng(0)
    pairs: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        pairs.setdefault((row["dataset"], row["query_id"], row["model1"], row["model2"]), []).append(place)
    groups = list(pairs.values())
    made = {}
    for aspect in ASPECTS:
        difference, label = _columns(rows, aspect)
        values = []
        for _ in range(resamples):
            places = [place for pick in drawn.integers(0, len(groups), len(groups)) for place in groups[pick]]
            values.append(float(np.corrcoef(difference[places], label[places])[0, 1]) * 100)
        low, high = np.percentile(values, [2.5, 97.5])
        made[aspect] = (float(low), float(high))
    return made


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _columns(rows: Sequence[dict[str, str]], aspect: str) -> tuple[np.ndarray, np.ndarray]:
    difference = np.array([float(row[f"rc2_{aspect}"]) - float(row[f"rc1_{aspect}"]) for row in rows])
    return difference, np.array([float(row[f"human_{aspect}"]) for row in rows])


def _both(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    return float(pearsonr(one, other).statistic) * 100, float(spearmanr(one, other).statistic) * 100


def scifact(data: Path) -> Iterator[Pair]:
    """SciFact's claims with each abstract that they cite: its label, or neutral where it holds no evidence."""
    with (data / "beir/scifact/corpus.jsonl").open(encoding="utf-8") as lines:
        abstracts = {one["_id"]: f"{one['title']}. {one['text']}" for one in map(json.loads, lines)}
    with (data / "scifact/claims_train.jsonl").open(encoding="utf-8") as lines:
        for claim in map(json.loads, lines):
            for document in map(str, claim["cited_doc_ids"]):
                evidence = claim["evidence"].get(document)
                yield abstracts[document], claim["claim"], evidence[0]["label"] if evidence else "NEI"


def physicians(data: Path) -> Iterator[Pair]:
    """K-QA's recorded answers and statements, with the label of more than half of three physicians."""
    for row in _rows(data / "kqa/dataset/NLI_medical_annotator.csv"):
        labels = [row[f"label_{number}"].strip().casefold() for number in range(3)]
        most = max(set(labels), key=labels.count)
        if labels.count(most) > 1:
            yield row["answer"], row["claim"], most


def measured(pairs: Iterable[Pair], verifier: str) -> Iterator[str]:
    """The lines of one set's table."""
    with tempfile.TemporaryDirectory() as folder:
        sheet = Path(folder) / "pairs.csv"
        with sheet.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("text", "claim", "label"), *pairs])
        found = asyncio.run(confusion(sheet, BY_NAME[verifier])).judge
    accuracy, kappa = found.accuracy, "-" if found.kappa is None else f"{found.kappa:.3f}"
    yield (
        f"{found.n:,} pairs on {found.clusters:,} texts: accuracy {accuracy.value:.1%} "
        f"(95 %: {accuracy.low:.1%} to {accuracy.high:.1%}), Cohen's kappa {kappa}."
    )
    yield ""
    yield f"| people \\ {verifier} | {' | '.join(LABELS)} |"
    yield "|---|" + "---|" * len(LABELS)
    for label in LABELS:
        said = found.confusion.get(label, {})
        yield f"| {label} | {' | '.join(str(said.get(other, 0)) for other in LABELS)} |"
    yield ""


def page(data: Path, verifier: str) -> Iterator[str]:
    """The whole page."""
    yield "# Claims: RAGChecker beside people, verifiers beside people"
    yield ""
    yield f"`python perf/claims.py DATA --verifier {verifier}`, {datetime.now(UTC):%Y-%m-%d}."
    yield ""
    file = data / "ragchecker-meta/labels_and_scores.csv"
    found, ends = correlations(file), intervals(file)
    yield f"RAGChecker's difference between two answers and the preference of a person, {len(_rows(file))} rows:"
    yield ""
    yield "| aspect | Pearson × 100 (95 %, over pairs) | Spearman × 100 |"
    yield "|---|---|---|"
    for aspect, (pearson, spearman) in found.items():
        low, high = ends[aspect]
        yield f"| {aspect} | {pearson:.2f} ({low:.1f} to {high:.1f}) | {spearman:.2f} |"
    yield ""
    yield "## SciFact"
    yield ""
    yield from measured(scifact(data), verifier)
    yield "## K-QA's physicians"
    yield ""
    yield from measured(physicians(data), verifier)


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--verifier", choices=sorted(BY_NAME), default="lexical")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    text = "\n".join(page(given.data, given.verifier)).rstrip() + "\n"
    if given.write:
        given.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
