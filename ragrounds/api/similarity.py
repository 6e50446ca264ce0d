"""Sentence similarity: how well embedders' cosines follow graded pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from ragrounds.api.frames import MEASURES, Frame, Part
from ragrounds.api.results import Result
from ragrounds.api.retrieve import Entry
from ragrounds.api.workspace import texts
from ragrounds.errors import UserError
from ragrounds.evals.retrieval.similarity import MEASURES as CORRELATIONS
from ragrounds.evals.retrieval.similarity import CorrelationDifference, score_similarity
from ragrounds.ui.retrieval_tables import print_similarity


class SimilarityResult(Result, frozen=True, kw_only=True):
    """How well embedders' cosines follow graded pairs of sentences."""

    entries: tuple[Entry, ...]
    comparisons: tuple[CorrelationDifference, ...]

    def draw(self, console: Console) -> None:
        """Print the correlations and the paired differences."""
        print_similarity(self.entries, self.comparisons, console)

    def brief(self) -> str:
        """The models."""
        return ", ".join(entry["retriever"] for entry in self.entries)

    def own_frames(self) -> tuple[Frame, ...]:
        """The correlations."""
        return (MEASURES,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A row for each model and correlation."""
        rows: Part = [
            (entry["retriever"], name, entry.get(name), entry["pairs"], None, None, None, None)
            for entry in self.entries
            for name in CORRELATIONS
        ]
        yield iter([rows])


def similarity(
    pairs: str | Path, retrievers: str | Sequence[str], *, resamples: int = 10_000, seed: int = 0
) -> SimilarityResult:
    """Set embedders' cosines against graded pairs of sentences.

    Args:
        pairs: the file (`ragrounds retrieve --benchmark sts:FILE`).
        retrievers: dense retrievers or their cards.
        resamples, seed: of the bootstrap.

    Raises:
        UserError: no retriever, one that embeds nothing, or a file that cannot be read.
    """
    named = texts(retrievers)
    if not named:
        raise UserError("Sentence similarity needs a model: --retriever 'dense[model=…]', or a card.")
    entries, differences = score_similarity(Path(pairs), list(named), resamples=resamples, seed=seed)
    return SimilarityResult(entries=tuple(entries), comparisons=tuple(differences))
