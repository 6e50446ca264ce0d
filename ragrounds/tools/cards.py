"""Cards of the retrievers and rerankers that the papers use: ``retrievers.toml``."""

from __future__ import annotations

import importlib.util
import os
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedding import Encoding


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One retriever."""

    name: str
    title: str
    kind: Literal["dense", "api", "foreign", "reranker"]
    encoding: Encoding
    size: str = ""
    """Parameters."""
    used_in: tuple[str, ...] = ()
    """Papers and their tables."""
    note: str = ""


@cache
def cards() -> dict[str, Card]:
    """All cards by name."""
    text = (resources.files("ragrounds.tools") / "retrievers.toml").read_text(encoding="utf-8")
    own = set(Card.__struct_fields__) - {"encoding"}
    found: dict[str, Card] = {}
    for row in tomllib.loads(text)["retriever"]:
        encoding = {key: value for key, value in row.items() if key not in own}
        rest: dict[str, Any] = {key: value for key, value in row.items() if key in own}
        found[row["name"]] = msgspec.convert({**rest, "encoding": encoding}, Card)
    return found


def missing(card: Card) -> str:
    """What is missing to use a card now; empty: nothing."""
    if card.kind == "foreign":
        return card.note
    if card.kind == "api":
        return "" if os.environ.get("OPENAI_API_KEY") else "the environment variable OPENAI_API_KEY"
    if importlib.util.find_spec("sentence_transformers") is None:
        return "sentence-transformers: install ragrounds[local]"
    absent = [model for model in {card.encoding.model, card.encoding.document_model} - {""} if not _is_here(model)]
    return f"the weights {', '.join(sorted(absent))}: downloaded when first used, or model=PATH" if absent else ""


def _is_here(model: str) -> bool:
    """Whether Hugging Face's cache holds a snapshot of the id."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    return any((hub / f"models--{model.replace('/', '--')}" / "snapshots").glob("*/config.json"))


def card_encoding(spec: Spec) -> Encoding:
    """The encoding of the card that a spec names.

    Raises:
        UserError: the card is of a retriever that is not used this way.
    """
    card = cards()[spec.name]
    if card.kind == "reranker":
        raise UserError(f"{spec.name!r} is a reranker: use it as rerank[of=bm25,model={spec.name},top=100].")
    if card.kind == "foreign":
        raise UserError(f"{spec.name!r} cannot be used by its card alone. {card.note}")
    return card.encoding
