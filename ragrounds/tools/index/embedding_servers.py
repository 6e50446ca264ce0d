"""Servers of the embedders in a retriever's spec, at any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.tools.index.cards import cards, unfolded

_SERVER = ("base_url", "alias")


def embedding_models(spec: Spec) -> Iterator[str]:
    """Yield the embedders on servers with an address, as texts of models: ``openai:NAME[base_url=…]``.

    Raises:
        UserError: several addresses for one embedder.
    """
    spec = unfolded(spec)
    if model := _model(spec):
        yield model
    for value in spec.parameters.values():
        if isinstance(value, Spec):
            yield from embedding_models(value)


def with_fingerprints(spec: Spec, served: Mapping[str, str]) -> Spec:
    """Return the spec with the fingerprints of its embedders' servers.

    Args:
        spec: a retriever's.
        served: a model's text of :func:`embedding_models` → the text with its server's fingerprint, if any.
    """
    spec = unfolded(spec)
    parameters: dict[str, Value] = {
        key: with_fingerprints(value, served) if isinstance(value, Spec) else value
        for key, value in spec.parameters.items()
    }
    fingerprint = parse(served.get(_model(spec), "none")).parameters.get("fingerprint")
    return Spec(spec.name, parameters if fingerprint is None else {**parameters, "fingerprint": fingerprint})


def fingerprints_in(spec: Spec) -> dict[str, str]:
    """Return the fingerprints in the spec by model and server of its embedders, written as in
    :attr:`ragrounds.models.options.ModelOptions.server`. A fingerprint is empty if it is not set.
    """
    spec, fingerprints = unfolded(spec), dict[str, str]()
    name, server = _name(spec), spec.parameters.get("alias") or spec.parameters.get("base_url")
    if name and server:
        fingerprints[str(Spec(name, {"server": str(server).rstrip("/")}))] = str(spec.parameters.get("fingerprint", ""))
    for value in spec.parameters.values():
        if isinstance(value, Spec):
            fingerprints |= fingerprints_in(value)
    return fingerprints


def _name(spec: Spec) -> str:
    """Return the embedder's model; empty if it is not on a server."""
    card = cards().get(spec.name)
    model = str(spec.parameters.get("model", card.encoding.model if card else ""))
    return model if model.startswith("openai:") else ""


def _model(spec: Spec) -> str:
    """Return the text of the embedder's model; empty if it is not behind an address."""
    base_url = str(spec.parameters.get("base_url", ""))
    if not base_url or not (name := _name(spec)):
        return ""
    if "," in base_url:
        raise UserError(f"{str(spec)!r}: an embedder asks one server; base_url={base_url!r} names several.")
    return str(Spec(name, {key: spec.parameters[key] for key in _SERVER if key in spec.parameters}))
