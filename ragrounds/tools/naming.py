"""From a retriever's text to the embedder in it: for what needs vectors, and searches nothing."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.specs import parse
from ragrounds.tools.cards import card_encoding, cards
from ragrounds.tools.dense import encoding_of
from ragrounds.tools.embedding import Embedder, Encoding, open_embedder


class NamedEmbedder(Struct, frozen=True):
    """An embedder with its canonical text, which is its identity."""

    spec: str
    encoding: Encoding
    embedder: Embedder

    @property
    def remote(self) -> str:
        """The provider's name of a model that is asked over the network; empty: it runs in this process."""
        return self.encoding.model if self.encoding.model.startswith("openai:") else ""


def named_embedder(text: str) -> NamedEmbedder:
    """Open the embedder of ``dense[model=…]`` or of a card.

    Raises:
        UserError: it names no embedder, or one that cannot be had.
    """
    spec = parse(text)
    if spec.name != "dense" and spec.name not in cards():
        raise UserError(f"{text!r} has no vectors: expected dense[model=…] or a card of `ragrounds retrievers`.")
    encoding, _ = encoding_of(spec, card_encoding(spec) if spec.name in cards() else None)
    return NamedEmbedder(str(spec), encoding, open_embedder(encoding))
