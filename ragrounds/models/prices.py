"""What a reply costs: the user's own price list on top of genai-prices' dated one. Unknown stays unknown."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Used
from ragrounds.base.errors import UserError
from ragrounds.base.records import Usage
from ragrounds.base.text import parse_toml, safe


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens, or per hour of a GPU that one pays for oneself."""

    input: float | None = None
    output: float | None = None
    """An embedder has none; a reply with a text has no known price without it."""
    cached: float | None = None
    """Of prompt tokens read from the provider's cache (default: `input`)."""
    reasoning: float | None = None
    """Of reasoning tokens, where they are priced apart from the rest of the output (default: `output`)."""
    gpu_hour: float | None = None
    """Dollars for an hour of one GPU, in place of prices for tokens: charged while the server is busy."""
    gpus: int | None = None
    """GPUs of the server (default: those the model is spread over)."""
    request: float | None = None
    """Dollars for one request to a search provider, in place of the others."""

    def __post_init__(self) -> None:
        tokens = (self.input, self.output)
        ways = (tokens != (None, None), self.gpu_hour is not None, self.request is not None)
        if sum(ways) != 1 or (ways[0] and self.input is None):
            raise ValueError("expected `input` and `output` (an embedder: `input`), or `gpu_hour`, or `request`")
        for name in ("input", "output", "cached", "reasoning", "gpu_hour", "gpus", "request"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"`{name}` is {value}; expected a number from 0")

    def of(self, usage: Usage | None, busy: float | None = None) -> float | None:
        """Dollars of one reply; ``None`` where what they depend on is not known.

        Args:
            usage: its tokens.
            busy: seconds of the server's busy time that it is charged with.
        """
        if self.gpu_hour is not None:
            return None if busy is None else busy / 3600 * self.gpu_hour * (self.gpus or 1)
        if usage is None or self.input is None or (self.output is None and usage.output):
            return None
        output = self.output or 0.0
        cached = self.input if self.cached is None else self.cached
        reasoning = output if self.reasoning is None else self.reasoning
        given = (usage.input - usage.cached) * self.input + usage.cached * cached
        written = (usage.output - usage.reasoning) * output + usage.reasoning * reasoning
        return (given + written) / 1e6


FREE = Price(input=0.0, output=0.0)


def read_prices(path: Path) -> Mapping[str, Price]:
    """The user's price list: TOML, one table a model, named ``provider:model``::

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
    if not path.exists():
        return {}
    model = ""
    try:
        tables, made = parse_toml(path.read_text(encoding="utf-8")), dict[str, Price]()
        for model, table in tables.items():
            made[model] = msgspec.convert(table, Price)
        return made
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        where = f"{path}, {safe(repr(model), 120)}" if model else str(path)
        raise UserError(
            f'{where}: {error}. Expected one table a model: ["provider:model"] with input and output (perhaps cached, '
            "reasoning; an embedder: input alone) in dollars per million tokens, or gpu_hour (perhaps gpus) in "
            "dollars; a search provider's has request, in dollars."
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


def embedding_price(
    model: str, tokens: int | None, prices: Mapping[str, Price], *, hosted: bool = True
) -> float | None:
    """Dollars of vectors that a server made; ``None`` where they are not known.

    Args:
        model: ``provider:model``.
        tokens: of the texts.
        prices: the user's own.
        hosted: by the provider itself, whose prices are listed.
    """
    usage = None if tokens is None else Usage(input=tokens)
    if model in prices:
        return prices[model].of(usage)
    if usage is None or not hosted:
        return None
    provider, _, name = model.partition(":")
    return listed_price(provider, name, usage)


def used_price(used: Used, prices: Mapping[str, Price]) -> float | None:
    """Dollars of what a search used: vectors from a server, or requests to a search provider; ``None``: not known.

    Args:
        used: what the search reported.
        prices: the user's own, which come before any list; a provider's is named ``search:tavily`` and says `request`.
    """
    if not used.requests:
        return embedding_price(used.model, used.tokens, prices, hosted=used.hosted)
    said = prices.get(used.model)
    each = used.each if said is None or said.request is None else said.request
    return None if each is None else used.requests * each


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
