"""Models whose stored calls have no known price, though the user's ``prices.toml`` has one today."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.api.workspace import chosen_settings, user_prices
from ragrounds.evals.compare.comparison import RunTotals
from ragrounds.evals.store.ledger import LedgerLine
from ragrounds.settings import Settings
from ragrounds.specs import parse


def priced_runs(rows: Sequence[RunTotals], settings: Settings | None = None) -> tuple[str, ...]:
    """The models of runs whose cost is unknown for want of a price, where each of the run's models has one today.

    Args:
        rows: what the runs came to.
        settings: whose home folder holds ``prices.toml``; ``None``: the user's.
    """
    lacking = [row for row in rows if row.cost_uncached is None and row.usage is not None]
    prices = user_prices(chosen_settings(settings, None)) if lacking else {}
    named = [{parse(model).name for model in row.models.values()} for row in lacking]
    return tuple(sorted({name for names in named if names <= prices.keys() for name in names}))


def priced_models(lines: Sequence[LedgerLine], settings: Settings) -> tuple[str, ...]:
    """The models of a ledger by model whose calls lack a price that is known today, though their tokens are known."""
    named = {line.model.partition("[")[0] for line in lines if line.unpriced and line.usage is not None}
    return tuple(sorted(named & user_prices(settings).keys())) if named else ()
