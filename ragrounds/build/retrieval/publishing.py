"""From judged queries to the files of a benchmark of retrieval: what both pipelines write alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.build.retrieval.corpus import Corpus
from ragrounds.build.retrieval.expert import INSTRUCTIONS, Label, expert_agreement, sample, sample_lines
from ragrounds.build.retrieval.sets import JudgedQuery, judged_beir, rerank_lines, titled
from ragrounds.build.sheets import free_name
from ragrounds.build.writing import Lines
from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.judges.labels import JudgeAgreement

SHEET = "sheet"


class Expert(Struct, frozen=True, kw_only=True):
    """What is asked of experts."""

    out: Path
    """The benchmark's folder, where earlier sheets may stand."""
    sample: int = 100
    """Pairs in the sheet, drawn by the seed; 0: no sheet."""
    experts: int = 1
    sheet: Path | None = None
    """A sheet that was filled in, to be read back."""


def retrieval_files(
    queries: Sequence[JudgedQuery], corpus: Corpus, expert: Expert, seed: int, *, most: int = 0
) -> tuple[dict[str, Lines], JudgeAgreement | None]:
    """BEIR, the guard, a reranking set and the experts' sheet; with it, how far the experts agree where their sheet is
    read back, which is then left as it is. `most`: documents a side in the reranking set; 0: all.

    Raises:
        UserError: a sheet that cannot be read, or is not of these labels.
    """
    labels = [*_labels(queries)]
    passages = {id: titled(each) for id, each in corpus.some({label.document for label in labels}).items()}
    files: dict[str, Lines] = dict(judged_beir(queries, corpus))
    files["sets/rerank.jsonl"] = rerank_lines(queries, passages, most=most, seed=seed)
    if expert.sheet is not None:
        return files, expert_agreement(expert.sheet, labels)
    if expert.sample:
        drawn = sample(labels, expert.sample, seed)
        lines = sample_lines(drawn, {query.id: query.text for query in queries}, passages, expert.experts)
        files |= {free_name(expert.out, SHEET, lines): lines, "instructions.md": [INSTRUCTIONS]}
    return files, None


def retrieval_card(
    name: str, title: str, source: str, size: int, *, language: str, note: str, license: str = "not known"
) -> Card:
    """The card of a benchmark of retrieval."""
    return Card(
        name=name,
        title=title,
        task="retrieval",
        source=source,
        license=license,
        language=language,
        size=size,
        metric="nDCG@10",
        scorers=("rouge-l",),
        note=note,
    )


def agreement_note(found: JudgeAgreement) -> str:
    """One line for the card."""
    share = found.judge.accuracy
    kappa = "not defined" if found.judge.kappa is None else f"{found.judge.kappa:.3f}"
    return (
        f"Experts agree with {share.value:.1%} of {share.n:,} labels (95 % interval {share.low:.1%} to "
        f"{share.high:.1%}), Cohen's kappa {kappa}."
    )


def _labels(queries: Iterable[JudgedQuery]) -> Iterable[Label]:
    for query in queries:
        yield from (Label(query=query.id, document=id, relevant=True) for id in query.positives)
        yield from (Label(query=query.id, document=id, relevant=False) for id in query.negatives)
