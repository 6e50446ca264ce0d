"""Base class of models behind a server: identity, window, tokens, price, limits per minute."""

from __future__ import annotations

import msgspec

from ragrounds.base.contracts import Request
from ragrounds.base.records import Reply
from ragrounds.models import tokens
from ragrounds.models.options import STARTED, ModelOptions, cards
from ragrounds.models.prices import Price, listed_price, listed_window
from ragrounds.models.traffic import Rates


class ProviderModel:
    """Part of :class:`ragrounds.base.contracts.Model` that sends nothing.

    `price` is from the user's price list: a price in the spec takes precedence over it, genai-prices' list comes after.
    `listed` is the provider's name in that list; ``None`` for a user's server, whose model names do not determine a
    price.
    """

    def __init__(self, options: ModelOptions, price: Price | None = None, listed: str | None = None) -> None:
        self._options = options
        self._spec = options.identity
        user_price = options.serving.price or price
        self._price = msgspec.structs.replace(user_price, gpus=user_price.gpus or options.gpus) if user_price else None
        self._listed = listed
        self._window = options.window or (cards()[options.card].window if options.card else None)
        if self._window is None and listed is not None:
            self._window = listed_window(listed, options.model)
        self._rates = Rates(options.serving.rpm, options.serving.tpm)

    @property
    def spec(self) -> str:
        """Identity of the model."""
        return self._spec

    @property
    def window(self) -> int | None:
        """Tokens that prompt and answer may have together; ``None`` if unknown."""
        return self._window

    @property
    def follows_schemas(self) -> bool:
        """True if the server is known to make replies follow a JSON schema (`response_format`)."""
        return self._options.serving.schemas or self._options.provider in STARTED

    @property
    def is_greedy(self) -> bool:
        """True if the temperature is 0, so that an equal request has an equal reply."""
        return self._options.sampling.temperature == 0

    @property
    def name(self) -> str:
        """Name of the model on the server."""
        return self._options.model

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return tokens.count(text, self._options.model)

    def cut(self, text: str, size: int, /) -> str:
        """Return the longest beginning of a text that has at most `size` tokens."""
        return tokens.cut(text, size, self._options.model)

    def price(self, reply: Reply) -> float | None:
        """Return the dollars of a reply; ``None`` if unknown."""
        if self._price is not None:
            return self._price.dollars(reply.usage, reply.busy, reply.cache_writes)
        if reply.usage is None or self._listed is None:
            return None
        return listed_price(self._listed, self._options.model, reply.usage, reply.cache_writes)

    def _size(self, request: Request) -> int:
        """Return the tokens that count against a limit per minute: those of the prompt and of the longest answer."""
        if self._rates.tokens is None:
            return 0
        longest = request.max_tokens or self._options.sampling.max_tokens or 0
        return sum(self.count(message.content) for message in request.messages) + longest
