"""`--order` of `ragrounds run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ragrounds.cli.common import one_of
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.evals.benchmarks import Benchmark
    from ragrounds.evals.engine.ordering import Order
    from ragrounds.evals.engine.strands import Stop, Strand
    from ragrounds.records import Question


def chosen_order(order: str | None, until: str | None) -> Order | None:
    """The order that was asked for; ``None``: it is left to :func:`in_order`.

    Raises:
        UserError: an unknown order; one beside `--until`, which draws its own.
    """
    if order is None:
        return None
    if until is not None:
        raise UserError("--order cannot be set with --until, which asks in an order drawn by --seed.")
    from ragrounds.evals.engine.ordering import ORDERS

    return cast("Order", one_of("--order", order, ORDERS))


def in_order(
    order: Order | None, loaded: Benchmark, strands: Sequence[Strand]
) -> tuple[Sequence[Question], Sequence[Stop]]:
    """The questions as they are asked, and what else the replay needs for that. Where nothing is said, questions that
    share something follow each other for models that vLLM serves."""
    from ragrounds.evals.engine.ordering import Together, ordered
    from ragrounds.models.options import VLLM

    served = any(model.spec.startswith(f"{VLLM}:") for strand in strands for model in strand.models.values())
    chosen = order or ("shared" if served else "given")
    return ordered(loaded.questions, loaded.golds, chosen), [Together()] if chosen == "shared" else []
