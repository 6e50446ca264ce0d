"""The losses equal the paper's formulas, written down in numpy."""

import numpy as np
import pytest

from tests.extensions.training.tiny import needs_torch

needs_torch()

import torch  # noqa: E402

from ragrounds.extensions.training.losses import Contrastive, ScoreKl, representation_kl, squared_distance  # noqa: E402


def unit(seed, rows=5, dimensions=8):
    values = np.random.default_rng(seed).normal(size=(rows, dimensions))
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def tensors(*arrays):
    return [torch.tensor(array, dtype=torch.float64) for array in arrays]


def softmax(scores):
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def infonce(queries, documents, temperature):
    cosines = queries @ documents.T
    cosines /= np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(documents, axis=1)
    rows = np.arange(len(queries))
    return -np.log(softmax(cosines / temperature)[rows, rows]).mean()


def test_infonce_with_in_batch_and_hard_negatives():
    """Equations 1 and 4: the negatives are the batch's other positives and every hard negative."""
    q, d, n = unit(0), unit(1), unit(2)
    got = Contrastive(None, 0.05)(*tensors(q), tensors(d, n))
    assert float(got) == pytest.approx(infonce(q, np.concatenate([d, n]), 0.05))


def test_matryoshka_is_the_mean_over_the_cuts():
    """Equation 5."""
    q, d = unit(0), unit(1)
    got = Contrastive(None, 0.05, (8, 4, 2))(*tensors(q), tensors(d))
    assert float(got) == pytest.approx(np.mean([infonce(q[:, :m], d[:, :m], 0.05) for m in (8, 4, 2)]))


def test_squared_distance():
    """Equation 2."""
    q, d = unit(0), unit(1)
    assert float(squared_distance(*tensors(q, d))) == pytest.approx(((q - d) ** 2).sum(axis=1).mean())
    assert float(squared_distance(*tensors(q, q))) == 0


def test_kl_of_representations():
    q, d = unit(0), unit(1)
    wanted, given = softmax(d / 0.1), softmax(q / 0.1)
    assert float(representation_kl(*tensors(q, d), 0.1)) == pytest.approx(
        (wanted * np.log(wanted / given)).sum(axis=1).mean()
    )


def test_kl_of_scores():
    """Of all the batch's documents, positives and hard negatives, by the teacher's scores and the student's."""
    q, d, n, tq, td, tn = (unit(seed) for seed in range(6))
    wanted = softmax(tq @ np.concatenate([td, tn]).T / 0.1)
    given = softmax(q @ np.concatenate([d, n]).T / 0.1)
    got = ScoreKl(None, 0.1)(*tensors(q), tensors(d, n), *tensors(tq), tensors(td, tn))
    assert float(got) == pytest.approx((wanted * np.log(wanted / given)).sum(axis=1).mean())
