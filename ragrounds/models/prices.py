"""Costs of replies, by the user's price list on top of genai-prices' dated one. Unknown costs stay unknown."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Used
from ragrounds.base.errors import UserError
from ragrounds.base.files import readable
from ragrounds.base.records import Usage
from ragrounds.base.text import parse_toml, safe


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens, or per hour of a GPU that the user pays for."""

    input: float | None = None
    output: float | None = None
    """Price of output tokens. An embedder has none; without it the price of a reply with a text is unknown."""
    cached: float | None = None
    """Price of prompt tokens read from the provider's cache (default: `input`)."""
    cache_write: float | None = None
    """Price of prompt tokens written to the provider's cache (default: `input`)."""
    reasoning: float | None = None
    """Price of reasoning tokens, if it differs from that of other output (default: `output`)."""
    gpu_hour: float | None = None
    """Dollars for an hour of one GPU, in place of prices for tokens: charged while the server is busy."""
    gpus: int | None = None
    """GPUs of the server (default: those the model is split over)."""
    request: float | None = None
    """Dollars for one request to a search provider, in place of the others."""

    def __post_init__(self) -> None:
        tokens = (self.input, self.output)
        ways = (tokens != (None, None), self.gpu_hour is not None, self.request is not None)
        if sum(ways) != 1 or (ways[0] and self.input is None):
            raise ValueError("expected `input` and `output` (an embedder: `input`), or `gpu_hour`, or `request`")
        for name in ("input", "output", "cached", "cache_write", "reasoning", "gpu_hour", "gpus", "request"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"`{name}` is {value}; expected a number from 0")

    def dollars(self, usage: Usage | None, busy: float | None = None, cache_writes: int = 0) -> float | None:
        """Return the dollars of one reply; ``None`` if the required figures are unknown.

        Args:
            usage: its tokens.
            busy: seconds of the server's busy time that it is charged with.
            cache_writes: its input tokens that were written to the provider's cache.
        """
        if self.gpu_hour is not None:
            return None if busy is None else busy / 3600 * self.gpu_hour * (self.gpus or 1)
        if usage is None or self.input is None or (self.output is None and usage.output):
            return None
        output = self.output or 0.0
        cached = self.input if self.cached is None else self.cached
        reasoning = output if self.reasoning is None else self.reasoning
        written = self.input if self.cache_write is None else self.cache_write
        input_cost = (usage.input - usage.cached - cache_writes) * self.input + usage.cached * cached
        input_cost += cache_writes * written
        output_cost = (usage.output - usage.reasoning) * output + usage.reasoning * reasoning
        return (input_cost + output_cost) / 1e6


FREE = Price(input=0.0, output=0.0)


def read_prices(home: Path) -> Mapping[str, Price]:
    """Read the user's price list, ``prices.toml`` in the folder `home`: one table per model, named
    ``provider:model``::

        ["openai:my-llama"]
        input = 0.05
        output = 0.20

        ["vllm:Qwen/Qwen3-8B"]
        gpu_hour = 2.50

        ["openai:text-embedding-3-small"]
        input = 0.02

        ["search:tavily"]
        request = 0.005

    Raises:
        UserError: the file does not have this form.
    """
    path, model = home / "prices.toml", ""
    if not path.exists():
        return {}
    try:
        with readable(path):
            text = path.read_text(encoding="utf-8")
        tables, prices = parse_toml(text), dict[str, Price]()
        for model, table in tables.items():
            prices[model] = msgspec.convert(table, Price)
        return prices
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        where = f"{path}, {safe(repr(model), 120)}" if model else str(path)
        raise UserError(
            f'{where}: {error}. Expected one table a model: ["provider:model"] with input and output (perhaps cached, '
            "cache_write, reasoning; an embedder: input alone) in dollars per million tokens, or gpu_hour (perhaps "
            "gpus) in dollars; a search provider's has request, in dollars."
        ) from error


def listed_price(provider: str, model: str, usage: Usage, cache_writes: int = 0) -> float | None:
    """Return the dollars by genai-prices' list (bundled, no network); ``None`` if it does not know the model.

    Input tokens read from the provider's cache and those written to it (`cache_writes`) have their own prices there.
    """
    return _listed(provider, model, usage.input, usage.output, usage.cached, cache_writes)


@functools.lru_cache(maxsize=4096)
def _listed(
    provider: str, model: str, prompt_tokens: int, completion_tokens: int, cached: int, cache_writes: int
) -> float | None:
    import genai_prices

    usage = genai_prices.Usage(
        input_tokens=prompt_tokens,
        output_tokens=completion_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=cache_writes,
    )
    try:
        return float(genai_prices.calc_price(usage, model, provider_id=provider).total_price)
    except LookupError:
        return None


def embedding_price(
    model: str, tokens: int | None, prices: Mapping[str, Price], *, hosted: bool = True
) -> float | None:
    """Return the dollars of vectors that a server made; ``None`` if unknown.

    Args:
        model: ``provider:model``.
        tokens: tokens of the texts.
        prices: the user's price list.
        hosted: True if the provider itself made them: its prices are listed.
    """
    usage = None if tokens is None else Usage(input=tokens)
    if model in prices:
        return prices[model].dollars(usage)
    if usage is None or not hosted:
        return None
    provider, _, name = model.partition(":")
    return listed_price(provider, name, usage)


def used_price(used: Used, prices: Mapping[str, Price]) -> float | None:
    """Return the dollars of a search: vectors from a server, or requests to a search provider; ``None`` if unknown.

    Args:
        used: usage that the search reported.
        prices: the user's price list, with precedence over any other; a search provider's entry is named
            ``search:tavily`` and sets `request`.
    """
    if not used.requests:
        return embedding_price(used.model, used.tokens, prices, hosted=used.hosted)
    user_price = prices.get(used.model)
    request_price = used.each if user_price is None or user_price.request is None else user_price.request
    return None if request_price is None else used.requests * request_price


def listed_window(provider: str, model: str) -> int | None:
    """Return the model's context window in tokens by genai-prices' list; ``None`` if it does not know the model."""
    import genai_prices

    try:
        priced = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=1, output_tokens=1), model, provider_id=provider
        )
    except LookupError:
        return None
    return priced.model.context_window
