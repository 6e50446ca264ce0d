"""The losses, over vectors that are already made: sentence-transformers' own where it has them.

CARE's are Equations 1 to 5 of CMedTEB + CARE; the KL forms are those of the baselines of Table 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class Contrastive:
    """Asymmetric InfoNCE (Equations 1 and 4): a query against its positive, the other positives of the batch, and hard
    negatives. With Matryoshka dimensions it is the mean over the cuts (Equation 5)."""

    def __init__(self, encoder: Any, temperature: float, dimensions: Sequence[int] = ()) -> None:
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        # Of cosines: the vectors need not be normalised anew where they are cut.
        self._loss: Any = MultipleNegativesRankingLoss(encoder, scale=1 / temperature)
        self._dimensions = tuple(dimensions)

    def __call__(self, queries: Tensor, documents: Sequence[Tensor]) -> Tensor:
        """Of vectors (batch, dimensions); `documents` are the positives first, then each hard negative's."""
        if not self._dimensions:
            return self._of(queries, documents)
        cuts = [self._of(queries[:, :cut], [each[:, :cut] for each in documents]) for cut in self._dimensions]
        return sum(cuts[1:], cuts[0]) / len(cuts)

    def _of(self, queries: Tensor, documents: Sequence[Tensor]) -> Tensor:
        value: Tensor = self._loss.compute_loss_from_embeddings([queries, *documents], None)
        return value


def squared_distance(one: Tensor, other: Tensor) -> Tensor:
    """Mean of the squared Euclidean distances of unit vectors (Equation 2). sentence-transformers' MSELoss also
    averages over the dimensions, which would make the paper's weights of 1 : 1 mean 1 : 1/dimensions."""
    return (one - other).pow(2).sum(dim=1).mean()


def representation_kl(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Kullback–Leibler divergence of the student's vector from the teacher's, each taken as a distribution over its
    components (KALE: Campos, Magnani and Zhai 2023); multiplied by the squared temperature, as in distillation."""
    from torch.nn import functional

    wanted = functional.softmax(teacher / temperature, dim=1)
    got = functional.log_softmax(student / temperature, dim=1)
    return functional.kl_div(got, wanted, reduction="batchmean")


class ScoreKl:
    """KL divergence of the student's scores of the batch's documents from the teacher's (Ren et al. 2021, Table 3's
    distillation baseline)."""

    def __init__(self, encoder: Any, temperature: float) -> None:
        from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss

        self._loss: Any = DistillKLDivLoss(encoder, temperature=temperature)
        self._weight = temperature**-2  # it multiplies by the squared temperature, which below 1 would silence it

    def __call__(
        self, queries: Tensor, documents: Sequence[Tensor], theirs: Tensor, scored: Sequence[Tensor]
    ) -> Tensor:
        """Of the student's vectors, and the teacher's of the same queries and documents."""
        import torch

        size = len(queries)
        columns, labels = [], []
        for mine, teachers in zip(documents, scored, strict=True):
            for shift in range(size):
                columns.append(mine.roll(-shift, 0))
                labels.append((theirs * teachers.roll(-shift, 0)).sum(dim=1))
        value: Tensor = self._loss.compute_loss_from_embeddings([queries, *columns], torch.stack(labels, dim=1))
        return value * self._weight
