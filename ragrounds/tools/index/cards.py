"""Cards of the retrievers and rerankers that the papers use (``retrievers.toml``), and the embedder that a card or a
``dense[…]`` spec names."""

from __future__ import annotations

import importlib.util
import os
import tomllib
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.tools.index.embedders import Embedder, Encoding, open_embedder
from ragrounds.tools.index.weights import weights_are_here


class RetrieverCard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to run one retriever or reranker as the papers did."""

    name: str
    title: str
    kind: Literal["dense", "api", "foreign", "reranker", "late"]
    encoding: Encoding
    size: str = ""
    """Number of the weights' parameters."""
    used_in: tuple[str, ...] = ()
    """Papers and their tables."""
    note: str = ""


@cache
def cards() -> dict[str, RetrieverCard]:
    """Return all cards by name."""
    text = (resources.files("ragrounds.tools") / "retrievers.toml").read_text(encoding="utf-8")
    card_fields = set(RetrieverCard.__struct_fields__) - {"encoding"}
    cards_by_name: dict[str, RetrieverCard] = {}
    for row in tomllib.loads(text)["retriever"]:
        encoding = {key: value for key, value in row.items() if key not in card_fields}
        rest = {key: value for key, value in row.items() if key in card_fields}
        cards_by_name[row["name"]] = msgspec.convert({**rest, "encoding": encoding}, RetrieverCard)
    return cards_by_name


def card_names(*kinds: str) -> list[str]:
    """Return the names of the cards of some kinds."""
    return [card.name for card in cards().values() if card.kind in kinds]


def missing(card: RetrieverCard) -> str:
    """Return what is missing to use a card now; empty if nothing is missing."""
    if card.kind == "foreign":
        return card.note
    if card.kind == "api":
        return "" if os.environ.get("OPENAI_API_KEY") else "the environment variable OPENAI_API_KEY"
    if importlib.util.find_spec("sentence_transformers") is None:
        return "sentence-transformers: install ragrounds[local]"
    needed = {card.encoding.model, card.encoding.document_model} - {""}
    absent = [model for model in needed if not weights_are_here(model)]
    return f"the weights {', '.join(sorted(absent))}: downloaded when first used, or model=PATH" if absent else ""


def card_encoding(spec: Spec) -> Encoding:
    """Return the encoding of the card that a spec names.

    Raises:
        UserError: the card is of a retriever that is not used this way.
    """
    card = cards()[spec.name]
    if card.kind in ("reranker", "late"):
        raise UserError(f"{spec.name!r} is a reranker: use it as rerank[of=bm25,model={spec.name},top=100].")
    if card.kind == "foreign":
        raise UserError(f"{spec.name!r} cannot be used by its card alone. {card.note}")
    return card.encoding


def unfolded(spec: Spec) -> Spec:
    """Return an embedder's spec with the parameters in its model's brackets, as chat models have them, among its own:
    ``dense[model=openai:X[base_url=…]]`` becomes ``dense[base_url=…,model=openai:X]``.

    Raises:
        UserError: a parameter is given both inside and outside the brackets.
    """
    model = spec.parameters.get("model")
    if model is None or (spec.name != "dense" and spec.name not in cards()):
        return spec
    if isinstance(model, str) and model.startswith("openai:") and "[" in model:
        model = parse(model)
    if not isinstance(model, Spec):
        return spec
    if twice := spec.parameters.keys() & model.parameters.keys():
        raise UserError(f"{str(spec)!r} says {', '.join(sorted(twice))} twice, once inside its model: leave one out.")
    return Spec(spec.name, {**spec.parameters, **model.parameters, "model": model.name})


def encoding_of(spec: Spec, card: Encoding | None = None) -> tuple[Encoding, Value]:
    """Read the encoding and the store of a ``dense[…]`` spec, or of a card's spec with changes.

    Raises:
        UserError: an unknown parameter, a wrong value, or no model.
    """
    spec = unfolded(spec)
    parameters = dict(spec.parameters)
    store = parameters.pop("store", "faiss")
    check_known(spec, ("store", *Encoding.__struct_fields__))
    if card is not None and "model" in parameters and "document_model" not in parameters and card.document_model:
        raise UserError(f"{spec.name} has two encoders: give document_model=… together with model=….")
    base = {} if card is None else msgspec.structs.asdict(card)
    if not {"model"} & (base | parameters).keys():
        raise UserError(
            f"{str(spec)!r} names no model: dense[model=PATH_OR_ID], say, or a card of `ragrounds list retrievers`."
        )
    try:
        encoding = msgspec.convert({**base, **parameters}, Encoding)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    if (store.name if isinstance(store, Spec) else store) != "faiss":
        address = check_address(str(store), "name no server here")
        raise UserError(
            f"Unknown store {address!r}: expected faiss or faiss[index=…]. Vectors in Chroma are searched by the "
            "retriever chroma[…]."
        )
    return encoding, store


class NamedEmbedder(msgspec.Struct, frozen=True):
    """An embedder with its canonical text, which is its identity."""

    spec: str
    encoding: Encoding
    embedder: Embedder

    @property
    def remote(self) -> str:
        """Return the provider's name of a model that is called over the network; empty if it runs in this process."""
        return self.encoding.model if self.encoding.model.startswith("openai:") else ""


def named_embedder(text: str) -> NamedEmbedder:
    """Open the embedder of ``dense[model=…]`` or of a card.

    Raises:
        UserError: the text names no embedder, or one that is not available.
    """
    spec = parse(text)
    if spec.name != "dense" and spec.name not in cards():
        raise UserError(f"{text!r} has no vectors: expected dense[model=…] or a card of `ragrounds list retrievers`.")
    encoding, _ = encoding_of(spec, card_encoding(spec) if spec.name in cards() else None)
    return NamedEmbedder(str(spec), encoding, open_embedder(encoding))
