"""Opening the models that judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.contracts import Model
    from ragrounds.settings import Settings


def open_judges(named: Sequence[str], base_url: str | None, chosen: Settings) -> list[Model]:
    """The judges; where none is named, the model of the settings.

    Raises:
        UserError: none, one named twice, or one that cannot be opened.
    """
    from ragrounds.errors import UserError
    from ragrounds.models.opening import open_model, with_defaults
    from ragrounds.models.prices import read_prices

    names = list(named) or ([chosen.model] if chosen.model else [])
    if not names:
        raise UserError("No judge was named: --judge provider:model, such as openai:gpt-4o-mini.")
    prices = read_prices(chosen.home / "prices.toml")
    opened = [open_model(with_defaults(name, {"base_url": base_url or chosen.base_url}), prices) for name in names]
    if len({model.spec for model in opened}) < len(opened):
        raise UserError("A judge is named twice: its vote would count double.")
    return opened
