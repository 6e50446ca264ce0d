"""From files to the items of a pipeline, with what is dropped before any model is asked."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item, Selection, assemble, lot, select
from ragrounds.evals.benchmarks.cards import Card

INTAKE, SAMPLE = "intake", "sample"


class Dropped(Struct, frozen=True, kw_only=True):
    """Something that was left out."""

    id: str
    stage: str
    reason: str
    """One of a few: they are counted."""
    detail: str = ""


class ItemSet(Struct, frozen=True, kw_only=True):
    """What a pipeline works on."""

    items: Benchmark
    """Those that were drawn, in the files' order."""
    read: int
    passed: int
    """Of those read, not dropped; `items` were drawn from these."""
    dropped: tuple[Dropped, ...] = ()
    seed: int = 0
    limit: int | None = None


def draw_items(
    name: str,
    items: Iterable[Item],
    dropped: Iterable[Dropped] = (),
    *,
    of: str,
    limit: int | None = None,
    seed: int = 0,
    passed: int | None = None,
) -> ItemSet:
    """Items under the name ``PIPELINE/SOURCE``, of which `limit` are drawn by `seed`; `of` says what they are made of.

    Where reading all items to draw a few would fill the memory, they are drawn before by
    :func:`drawn_ids`, and `passed` says from how many.

    Raises:
        UserError: nothing is left, or an id stands twice.
    """
    left_out, passing = tuple(dropped), list(items)
    if not passing:
        reasons = sorted({f"{each.reason}" for each in left_out})
        because = f"; all {len(left_out):,} were dropped ({', '.join(reasons)})" if left_out else ""
        raise UserError(f"{of}: no items are left{because}.")
    card = Card(name=name, title=of, task="mixed", source=of, license="not known")
    benchmark = assemble(name, card, passing)
    if passed is None:
        chosen = select(benchmark, limit=limit, seed=seed)
    else:
        chosen = replace(benchmark, selection=Selection(seed=seed, limit=limit, of=passed))
    whole = len(passing) if passed is None else passed
    return ItemSet(
        items=chosen,
        read=whole + len(left_out),
        passed=whole,
        dropped=left_out,
        seed=seed,
        limit=limit,
    )


def drawn_ids(ids: Iterable[str], limit: int | None, seed: int) -> frozenset[str]:
    """`limit` of the ids, as :func:`ragrounds.evals.benchmarks.select` draws questions."""
    return frozenset(sorted(ids, key=lambda id: lot(seed, id))[:limit])


def plain_name(name: str) -> str:
    """A name for a benchmark from any text: letters, digits, ``_``, ``.`` and ``-`` stay, all else becomes ``_``."""
    return "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in name)
