"""Losses of each kind of stage, the encoders that it trains, and the frozen ones.

| kind | paper | trains | frozen |
|---|---|---|---|
| ``initialise-query`` | Section 4.2, C.1.1 | the query encoder, for queries and documents | |
| ``initialise-document`` | Section 4.2, C.1.2 | the document encoder, for queries and documents; Matryoshka | |
| ``align`` | Stage I, Section 4.2.1 | the query encoder | the document encoder |
| ``joint`` | Stage II, Section 4.2.2 | both | |
| ``distil`` | Table 3's distillation | the query encoder, for queries and documents | the document encoder (teacher) |

``align`` with other weights of its losses is a baseline of other papers: MSE alone is Wang and Lyu (2023), KL alone is
KALE (Campos, Magnani and Zhai 2023), both on a student of the teacher's first layers.

CARE's losses are Equations 1 to 5 of CMedTEB + CARE; the KL forms are those of the baselines of Table 3. They take
vectors that are already made, and are sentence-transformers' own where it has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragrounds.base.errors import UserError
from ragrounds.extensions.training.data import Example
from ragrounds.extensions.training.libraries import torch
from ragrounds.extensions.training.loop import Loss
from ragrounds.extensions.training.spec import Stage, Training
from ragrounds.tools.index.embedders import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor


class Contrastive:
    """Asymmetric InfoNCE (Equations 1 and 4).

    A query is compared with its positive, the batch's other positives, and hard negatives. With Matryoshka dimensions
    the loss is the mean over the cuts (Equation 5).
    """

    def __init__(self, encoder: Any, temperature: float, dimensions: Sequence[int] = ()) -> None:
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        # The loss uses cosines, so that vectors need not be normalised again after a cut.
        self._loss: Any = MultipleNegativesRankingLoss(encoder, scale=1 / temperature)
        self._dimensions = tuple(dimensions)

    def __call__(self, queries: Tensor, documents: Sequence[Tensor]) -> Tensor:
        """Compute the loss from vectors (batch, dimensions).

        `documents`: the positives first, then each hard negative's.
        """
        if not self._dimensions:
            return self._compute(queries, documents)
        cuts = [
            self._compute(queries[:, :cut], [vectors[:, :cut] for vectors in documents]) for cut in self._dimensions
        ]
        return sum(cuts[1:], cuts[0]) / len(cuts)

    def _compute(self, queries: Tensor, documents: Sequence[Tensor]) -> Tensor:
        value: Tensor = self._loss.compute_loss_from_embeddings([queries, *documents], None)
        return value


def squared_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean of the squared Euclidean distances of unit vectors (Equation 2).

    sentence-transformers' MSELoss also averages over the dimensions, which would make the paper's weights of 1 : 1 mean
    1 : 1/dimensions.
    """
    return (student - teacher).pow(2).sum(dim=1).mean()


def representation_kl(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the Kullback–Leibler divergence of the student's vector from the teacher's.

    Each vector is taken as a distribution over its components (KALE: Campos, Magnani and Zhai 2023). The result is
    multiplied by the squared temperature, as in distillation.
    """
    from torch.nn import functional

    target = functional.softmax(teacher / temperature, dim=1)
    log_student = functional.log_softmax(student / temperature, dim=1)
    return functional.kl_div(log_student, target, reduction="batchmean")


class ScoreKl:
    """KL divergence of the student's scores of the batch's documents from the teacher's.

    Ren et al. 2021; Table 3's distillation baseline.
    """

    def __init__(self, encoder: Any, temperature: float) -> None:
        from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss

        self._loss: Any = DistillKLDivLoss(encoder, temperature=temperature)
        self._weight = temperature**-2  # it multiplies by the squared temperature, which below 1 would silence it

    def __call__(
        self, queries: Tensor, documents: Sequence[Tensor], theirs: Tensor, scored: Sequence[Tensor]
    ) -> Tensor:
        """Compute the loss from the student's vectors, and the teacher's vectors of the same queries and documents."""

        size = len(queries)
        columns, labels = [], []
        for student_documents, teacher_documents in zip(documents, scored, strict=True):
            for shift in range(size):
                columns.append(student_documents.roll(-shift, 0))
                labels.append((theirs * teacher_documents.roll(-shift, 0)).sum(dim=1))
        value: Tensor = self._loss.compute_loss_from_embeddings([queries, *columns], torch.stack(labels, dim=1))
        return value * self._weight


Positions = npt.NDArray[np.intp]
Frozen = Callable[[Sequence[str]], Vectors]
"""Function that returns vectors of texts by the document encoder before the stage, from disk."""


class GradientEncoder:
    """Encoder that is run with gradients."""

    def __init__(self, encoder: SentenceTransformer, prefix: str) -> None:
        self._encoder = encoder
        self._prefix = prefix

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return unit vectors, one row a text."""
        features = self._encoder.preprocess([self._prefix + text for text in texts])
        on_device = {
            key: value.to(self._encoder.device) if hasattr(value, "to") else value for key, value in features.items()
        }
        vectors: Tensor = self._encoder(on_device)["sentence_embedding"]
        return vectors.float()


def symmetric(stage: Stage) -> bool:
    """Return True if the stage makes the query encoder the document encoder too."""
    return stage.kind == "distil"


def trains_query(stage: Stage) -> bool:
    """Return True if the stage changes the query encoder."""
    return stage.kind != "initialise-document"


def trains_document(stage: Stage) -> bool:
    """Return True if the stage changes the document encoder."""
    return stage.kind in ("initialise-document", "joint")


def alignment_loss(
    training: Training, stage: Stage, query: SentenceTransformer, queries: Sequence[str], targets: Vectors
) -> Loss:
    """Return the loss of Stage I: the query encoder's vector of a text against the frozen vectors (Equation 3).

    Self-contrastive, both are of the same text; supervised (Table 5), the frozen ones are of the relevant texts.

    Args:
        training: The whole file.
        stage: Its settings.
        query: The query encoder.
        queries: Texts that it encodes.
        targets: The frozen document encoder's vectors, one row for each of `queries`.
    """

    encode = GradientEncoder(query, training.query.prefix)
    contrastive = Contrastive(query, stage.temperature, stage.dimensions)

    def loss(batch: Positions) -> Tensor:
        """Return the loss of the examples at these positions."""
        student = encode([queries[position] for position in batch])
        teacher = torch.from_numpy(targets[batch]).to(student.device)
        total = student.new_zeros(())
        if stage.contrastive:
            total = total + stage.contrastive * contrastive(student, [teacher])
        if stage.mse:
            total = total + stage.mse * squared_distance(student, teacher)
        if stage.kl:
            total = total + stage.kl * representation_kl(student, teacher, stage.temperature)
        return total

    return loss


def ranking_loss(
    stage: Stage,
    encode_query: GradientEncoder,
    encode_document: GradientEncoder,
    encoder: Any,
    examples: Sequence[Example],
) -> Loss:
    """Return the loss of queries against relevant texts, the batch's others, and hard negatives (Equation 4).

    It is used for Stage II and, with one encoder for both, for independent initialisation.
    """

    contrastive = Contrastive(encoder, stage.temperature, stage.dimensions)

    def loss(batch: Positions) -> Tensor:
        """Return the loss of the examples at these positions."""
        examples_in_batch = [examples[position] for position in batch]
        columns = [[example.positive for example in examples_in_batch]]
        columns += [[example.negatives[number] for example in examples_in_batch] for number in range(stage.negatives)]
        queries = encode_query([example.query for example in examples_in_batch])
        documents = torch.split(
            encode_document([text for column in columns for text in column]), len(examples_in_batch)
        )
        return stage.contrastive * contrastive(queries, documents)

    return loss


def distillation_loss(
    training: Training, stage: Stage, student: SentenceTransformer, examples: Sequence[Example], frozen: Frozen
) -> Loss:
    """Return the loss of a student that learns the teacher's scores of the batch's documents (KL), and InfoNCE.

    The student encodes queries and documents (Appendix C.2; Ren et al. 2021).
    """

    encode = GradientEncoder(student, training.query.prefix)
    plain = GradientEncoder(student, "")
    contrastive = Contrastive(student, stage.temperature, stage.dimensions)
    scores = ScoreKl(student, stage.temperature)
    texts = [[example.query for example in examples], [example.positive for example in examples]]
    texts += [[example.negatives[number] for example in examples] for number in range(stage.negatives)]
    teacher_vectors = [frozen(column) for column in texts]

    def loss(batch: Positions) -> Tensor:
        """Return the loss of the examples at these positions."""
        queries = encode([texts[0][position] for position in batch])
        columns = [[column[position] for position in batch] for column in texts[1:]]
        documents = torch.split(plain([text for column in columns for text in column]), len(batch))
        total = queries.new_zeros(())
        if stage.contrastive:
            total = total + stage.contrastive * contrastive(queries, documents)
        if stage.kl:
            teacher = [torch.from_numpy(vectors[batch]).to(queries.device) for vectors in teacher_vectors]
            total = total + stage.kl * scores(queries, documents, teacher[0], teacher[1:])
        return total

    return loss


def with_negatives(examples: Sequence[Example], stage: Stage, name: str) -> list[Example]:
    """Return the examples that have at least as many hard negatives as the stage uses.

    Raises:
        UserError: too few examples have.
    """
    usable = [example for example in examples if len(example.negatives) >= stage.negatives]
    if len(usable) < 2:
        raise UserError(
            f"The stage {name!r} uses {stage.negatives} hard negatives a query, and {len(usable)} of "
            f"{len(examples)} examples have so many: give [mining], or files with negatives."
        )
    return usable
