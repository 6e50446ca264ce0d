"""What a reply costs: the user's own price list on top of genai-prices' dated one. Unknown stays unknown."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.records import Usage


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens. `cached`: of prompt tokens read from the provider's cache (default: `input`)."""

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """Dollars of one reply. Reasoning tokens are a part of the output and priced as such."""
        cached = self.input if self.cached is None else self.cached
        plain = usage.input - usage.cached
        return (plain * self.input + usage.cached * cached + usage.output * self.output) / 1e6


FREE = Price(input=0.0, output=0.0)


def read_prices(path: Path) -> Mapping[str, Price]:
    """The user's price list: TOML, one table a model, named ``provider:model``::

        ["openai:my-llama"]
        input = 0.05
        output = 0.20

    Raises:
        UserError: the file does not have this form.
    """
    if not path.exists():
        return {}
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Price])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UserError(
            f'{path}: {error}. Expected one table a model: ["provider:model"] with input, output and perhaps cached, '
            "in dollars per million tokens."
        ) from error


def listed_price(provider: str, model: str, usage: Usage) -> float | None:
    """Dollars by genai-prices' list (bundled with it, no network); ``None`` where it does not know the model."""
    return _listed(provider, model, usage.input, usage.output, usage.cached)


@functools.lru_cache(maxsize=4096)
def _listed(provider: str, model: str, given: int, written: int, cached: int) -> float | None:
    import genai_prices

    usage = genai_prices.Usage(input_tokens=given, output_tokens=written, cache_read_tokens=cached)
    try:
        return float(genai_prices.calc_price(usage, model, provider_id=provider).total_price)
    except LookupError:
        return None


def listed_window(provider: str, model: str) -> int | None:
    """The model's context window in tokens by genai-prices' list; ``None`` where it does not know it."""
    import genai_prices

    try:
        priced = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=1, output_tokens=1), model, provider_id=provider
        )
    except LookupError:
        return None
    return priced.model.context_window
