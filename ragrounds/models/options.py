"""What can be set on a model: ``provider:model[temperature=0,max_tokens=512,…]``."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.contracts import Continuation
from ragrounds.errors import UserError, nearest
from ragrounds.models.cards import card_name
from ragrounds.models.prices import Price
from ragrounds.models.retrying import Patience
from ragrounds.specs import Spec, Value


class Sampling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters that can change a reply. They are sent to the server and are part of the model's identity."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    reasoning_effort: str | None = None


class Serving(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and how the model is reached. `alias` stands for `base_url` in the identity, so that a server may move."""

    base_url: str | None = None
    alias: str | None = None
    window: int | None = None
    timeout: float = 600.0
    tries: int = 6
    patience: float = 300.0
    price_input: float | None = None
    price_output: float | None = None

    @property
    def retries(self) -> Patience:
        return Patience(tries=self.tries, seconds=self.patience)

    @property
    def price(self) -> Price | None:
        if self.price_input is None or self.price_output is None:
            return None
        return Price(input=self.price_input, output=self.price_output)


class Form(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the model is spoken to. This changes what it is sent, so it is a part of its identity."""

    card: str | None = None
    """A card of ``cards.toml``; by default the one that fits the model's name. ``none``: chat turns."""
    continues: Continuation | None = None
    """How it goes on with a text of its own: ``prefix`` where the server can (vLLM; any card), else ``turns``."""


class ModelOptions(Struct, frozen=True):
    """A model's spec, taken apart."""

    provider: str
    model: str
    sampling: Sampling
    serving: Serving
    form: Form = Form()

    @property
    def card(self) -> str | None:
        """The name of the model's card, where it has one."""
        return card_name(self.model, self.form.card)

    @property
    def continues(self) -> Continuation:
        """How the model goes on with a text of its own."""
        return self.form.continues or ("prefix" if self.card else "turns")

    @property
    def identity(self) -> str:
        """Canonical text of all that determines a reply: name, sampling, and the server (or its alias)."""
        parameters: dict[str, Value] = dict(msgspec.to_builtins(self.sampling))
        if self.card:
            parameters["card"] = self.card
        if self.form.continues:
            parameters["continues"] = self.form.continues
        server = self.serving.alias or self.serving.base_url
        if server:
            parameters["server"] = server.rstrip("/")
        return str(Spec(f"{self.provider}:{self.model}", parameters))


_SAMPLING = {field.name for field in msgspec.structs.fields(Sampling)}
_SERVING = {field.name for field in msgspec.structs.fields(Serving)}
_FORM = {field.name for field in msgspec.structs.fields(Form)}


def read_options(spec: Spec) -> ModelOptions:
    """Take a model's spec apart.

    Raises:
        UserError: no provider, an unknown parameter, or a value of the wrong type.
    """
    provider, colon, model = spec.name.partition(":")
    if not colon or not model:
        raise UserError(
            f"The model {spec.name!r} names no provider. Expected provider:model, such as openai:gpt-4o-mini, "
            "or baseline:extractive for the built-in baseline."
        )
    known = _SAMPLING | _SERVING | _FORM
    for key in spec.parameters:
        if key not in known:
            raise UserError(
                f"A model has no parameter {key!r}.{nearest(key, known)} Known: {', '.join(sorted(known))}."
            )
    return ModelOptions(
        provider,
        model,
        _read(Sampling, {k: v for k, v in spec.parameters.items() if k in _SAMPLING}, spec),
        _read(Serving, {k: v for k, v in spec.parameters.items() if k in _SERVING}, spec),
        _read(Form, {k: v for k, v in spec.parameters.items() if k in _FORM}, spec),
    )


def _read(kind: type[Any], values: dict[str, Value], spec: Spec) -> Any:
    try:
        return msgspec.convert({k: str(v) if isinstance(v, Spec) else v for k, v in values.items()}, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"The model {str(spec)!r}: {error}") from error
