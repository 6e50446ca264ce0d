"""The servers that embedders in a retriever's spec ask, wherever in it they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.tools.index.cards import cards, unfolded

_SERVER = ("base_url", "alias")


def embedding_models(spec: Spec) -> Iterator[str]:
    """The embedders on servers with an address, as texts of models: ``openai:NAME[base_url=…]``.

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
    """The spec with the fingerprints of its embedders' servers.

    Args:
        spec: a retriever's.
        served: a model's text of :func:`embedding_models` → the text with its server's fingerprint, where it has one.
    """
    spec = unfolded(spec)
    made: dict[str, Value] = {
        key: with_fingerprints(value, served) if isinstance(value, Spec) else value
        for key, value in spec.parameters.items()
    }
    mark = parse(served.get(_model(spec), "none")).parameters.get("fingerprint")
    return Spec(spec.name, made if mark is None else {**made, "fingerprint": mark})


def fingerprints_in(spec: Spec) -> dict[str, str]:
    """Of the embedders on servers: model and server, as
    :attr:`ragrounds.models.options.ModelOptions.server` has them, → the fingerprint in the spec, empty where there is
    none."""
    spec, found = unfolded(spec), dict[str, str]()
    name, place = _name(spec), spec.parameters.get("alias") or spec.parameters.get("base_url")
    if name and place:
        found[str(Spec(name, {"server": str(place).rstrip("/")}))] = str(spec.parameters.get("fingerprint", ""))
    for value in spec.parameters.values():
        if isinstance(value, Spec):
            found |= fingerprints_in(value)
    return found


def _name(spec: Spec) -> str:
    """The embedder's model, where it is one of a server."""
    card = cards().get(spec.name)
    model = str(spec.parameters.get("model", card.encoding.model if card else ""))
    return model if model.startswith("openai:") else ""


def _model(spec: Spec) -> str:
    """The text of the embedder's model; empty: none that is behind an address."""
    name, place = _name(spec), str(spec.parameters.get("base_url", ""))
    if not name or not place:
        return ""
    if "," in place:
        raise UserError(f"{str(spec)!r}: an embedder asks one server; base_url={place!r} names several.")
    return str(Spec(name, {key: spec.parameters[key] for key in _SERVER if key in spec.parameters}))
