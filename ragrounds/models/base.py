"""What all models behind a server share: identity, window, tokens, price, limits a minute."""

from __future__ import annotations

import msgspec

from ragrounds.base.contracts import Request
from ragrounds.base.records import Reply
from ragrounds.models import tokens
from ragrounds.models.options import ModelOptions, cards
from ragrounds.models.prices import Price, listed_price, listed_window
from ragrounds.models.traffic import Rates


class ProviderModel:
    """The part of :class:`ragrounds.base.contracts.Model` that sends nothing.

    `price` is from the user's price list: a price in the spec goes before it, genai-prices' list comes after. `listed`
    is the provider's name in that list; ``None`` for a server of one's own, whose model names say nothing of a price.
    """

    def __init__(self, options: ModelOptions, price: Price | None = None, listed: str | None = None) -> None:
        self._options = options
        self._spec = options.identity
        own = options.serving.price or price
        self._price = msgspec.structs.replace(own, gpus=own.gpus or options.gpus) if own else None
        self._listed = listed
        self._window = options.window or (cards()[options.card].window if options.card else None)
        if self._window is None and listed is not None:
            self._window = listed_window(listed, options.model)
        self._rates = Rates(options.serving.rpm, options.serving.tpm)

    @property
    def spec(self) -> str:
        """The model's identity."""
        return self._spec

    @property
    def window(self) -> int | None:
        """Tokens that prompt and answer may take together; ``None``: not known."""
        return self._window

    @property
    def name(self) -> str:
        """The model's name on the server."""
        return self._options.model

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return tokens.count(text, self._options.model)

    def cut(self, text: str, size: int, /) -> str:
        """The longest beginning of a text that has at most `size` tokens."""
        return tokens.cut(text, size, self._options.model)

    def price(self, reply: Reply) -> float | None:
        """Dollars of a reply; ``None``: not known."""
        if self._price is not None:
            return self._price.of(reply.usage, reply.busy)
        if reply.usage is None or self._listed is None:
            return None
        return listed_price(self._listed, self._options.model, reply.usage)

    def _size(self, request: Request) -> int:
        """Tokens that a call counts against a limit a minute: the prompt's, and those of the longest answer."""
        if self._rates.tokens is None:
            return 0
        longest = request.max_tokens or self._options.sampling.max_tokens or 0
        return sum(self.count(message.content) for message in request.messages) + longest
