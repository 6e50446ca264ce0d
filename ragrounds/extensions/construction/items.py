"""Items of a pipeline, and what is dropped before any model is called."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item, Selection, assemble, lot, select
from ragrounds.evals.benchmarks.cards import Card

INTAKE, SAMPLE = "intake", "sample"


class Dropped(Struct, frozen=True, kw_only=True):
    """An item, or a part of one, that was left out."""

    id: str
    stage: str
    reason: str
    """Reason from a small set: reasons are counted."""
    detail: str = ""


class ItemSet(Struct, frozen=True, kw_only=True):
    """Items that a pipeline works on."""

    items: Benchmark
    """Sampled items, in the files' order."""
    read: int
    passed: int
    """Number of items that were read and not dropped; `items` were sampled from these."""
    dropped: tuple[Dropped, ...] = ()
    seed: int = 0
    limit: int | None = None


def draw_items(
    name: str,
    items: Iterable[Item],
    dropped: Iterable[Dropped] = (),
    *,
    source: str,
    limit: int | None = None,
    seed: int = 0,
    passed: int | None = None,
) -> ItemSet:
    """Sample at most `limit` items by `seed`, under the name ``PIPELINE/SOURCE``; `source` names their source.

    If all items do not fit into memory, they are sampled before by :func:`sample_ids`, and `passed` is the number that
    they were sampled from.

    Raises:
        UserError: nothing is left, or a duplicate id.
    """
    left_out, passing = tuple(dropped), list(items)
    if not passing:
        reasons = sorted({f"{drop.reason}" for drop in left_out})
        because = f"; all {len(left_out):,} were dropped ({', '.join(reasons)})" if left_out else ""
        raise UserError(f"{source}: no items are left{because}.")
    card = Card(name=name, title=source, task="mixed", source=source, license="not known")
    benchmark = assemble(name, card, passing)
    if passed is None:
        sample = select(benchmark, limit=limit, seed=seed)
    else:
        sample = replace(benchmark, selection=Selection(seed=seed, limit=limit, of=passed))
    passed_count = len(passing) if passed is None else passed
    return ItemSet(
        items=sample,
        read=passed_count + len(left_out),
        passed=passed_count,
        dropped=left_out,
        seed=seed,
        limit=limit,
    )


def sample_ids(ids: Iterable[str], limit: int | None, seed: int) -> frozenset[str]:
    """Return a sample of at most `limit` ids, the same as :func:`ragrounds.evals.benchmarks.select` takes
    of questions.
    """
    return frozenset(sorted(ids, key=lambda id: lot(seed, id))[:limit])


def plain_name(name: str) -> str:
    """Return a name for a benchmark from any text: letters, digits, ``_``, ``.`` and ``-`` stay, others
    become ``_``.
    """
    return "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in name)
