"""Parameters of all retrievers over external indexes: fields, addresses, keys, and the embedder of queries.

The retrievers are described in :mod:`ragrounds.extensions.engines.external_index`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_type_hints
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Meta

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.base.text import safe
from ragrounds.tools.index.cards import card_encoding, cards, encoding_of
from ragrounds.tools.index.embedders import Encoding

Mode = Literal["vector", "text", "hybrid"]
Record = Mapping[str, object]
P = TypeVar("P", bound="ExternalParameters")
FIELDS = ("id", "document", "title", "text", "vector")
"""Parts of a passage.

The parameters of these names are the engine's names of the fields; a dotted name is the path into fields that are
objects: ``metadata.title``.
"""


class ExternalParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of every external engine. An adapter adds others in a subclass."""

    url: Annotated[str, "address of the server, without a password"] = ""
    url_env: Annotated[str, "environment variable of an address that contains a password"] = ""
    key_env: Annotated[str, "environment variable that holds the key"] = ""
    id: Annotated[str, "field of a passage's id"] = "id"
    text: Annotated[str, "field of its text"] = "text"
    title: Annotated[str, "field of its title; need not be there"] = "title"
    document: Annotated[str, "field of its document's id; need not be there"] = "document"
    vector: Annotated[str, "field of its vector"] = "vector"
    mode: Annotated[Mode, "vector, text, or hybrid (both, fused)"] = "vector"
    embed: Annotated[
        str, "what makes vectors of queries: a card, a Hugging Face id, a folder, openai:MODEL, dense[model=…]"
    ] = ""
    metric: Annotated[
        Literal["", "cosine", "ip", "l2"], "cosine, ip or l2; by default that of the index, or of the embedding model"
    ] = ""
    filter: Annotated[str, "what restricts the search, in the engine's own language"] = ""
    version: Annotated[str, "names the version of the corpus in place of a digest of what the engine holds"] = ""
    connections: Annotated[int, "calls at a time", Meta(ge=1)] = 4
    timeout: Annotated[float, "seconds for one call", Meta(gt=0)] = 30.0


def field_of(record: Record, name: str) -> object:
    """Return the value of a field: of the exact name, or along its dots; ``None`` if the record has neither."""
    if name in record:
        return record[name]
    value: object = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def text_of(record: Record, name: str) -> str:
    """Return a field as text; ``""`` if the record does not have it."""
    value = field_of(record, name) if name else None
    return "" if value is None else value if isinstance(value, str) else str(value)


def read_parameters(spec: Spec, kind: type[P], *, words: bool = True) -> P:
    """Read the parameters of a spec. If the engine does not search by `words`, only one mode is allowed.

    Raises:
        UserError: an unknown parameter (the message has the nearest), a value of another kind, or a password in the
            address.
    """
    check_known(spec, kind.__struct_fields__)
    hints = get_type_hints(kind)
    plain: dict[str, object] = {key: _plain(value, hints[key] is str) for key, value in spec.parameters.items()}
    try:
        parameters = msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    if parameters.url and parameters.url_env:
        raise UserError(f"{spec.name} was given url and url_env: expected one of them.")
    _check_url(parameters.url, spec.name)
    for parameter in ("url_env", "key_env"):
        if not (getattr(parameters, parameter) or "a").replace("_", "a").isalnum():
            # The value may be the key itself, so the message must not repeat it.
            raise UserError(
                f"{spec.name}[{parameter}=…] takes the name of an environment variable, such as "
                f"{parameter}=MY_{parameter[:3].upper()}. What was given is no name. "
                "The key or address itself never belongs in a spec."
            )
    if not words and parameters.mode != "vector":
        raise UserError(
            f"{spec.name} ranks by vectors alone: fuse it with BM25 for words, rrf[a=bm25,b={spec.name}[…]]."
        )
    if parameters.mode != "text" and not parameters.embed:
        other = " Or search by words: mode=text." if words else ""
        raise UserError(
            f"{spec.name}[mode={parameters.mode}] needs what makes vectors of queries: {spec.name}[embed=MODEL], the "
            f"model that made the vectors of the index.{other}"
        )
    return parameters


def _plain(value: Value, text: bool) -> object:
    if isinstance(value, bool) and text:
        return str(value).lower()
    return str(value) if isinstance(value, Spec) or (text and not isinstance(value, str)) else value


def _check_url(url: str, retriever: str) -> None:
    """Raise UserError if an address has a password or a key; a user's name is allowed.

    Raises:
        UserError: a part of it is, or looks like, a password or key.
    """
    if not url:
        return
    parts = urlsplit(url)
    advice = (
        f"put the whole address into an environment variable and give its name, {retriever}[url_env=NAME], or the key "
        f"alone: key_env=NAME"
    )
    if parts.password:
        raise UserError(
            f"The address of {retriever} was given with a password. Leave it out: {advice}. A spec is shown in tables, "
            "stores and reports."
        )
    host = parts.netloc.rpartition("@")[2]
    check_address(urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment)), advice)


def address_of(options: ExternalParameters, retriever: str) -> str:
    """Return the address of an engine's server, or the `path` of an engine in this process.

    The address is in the spec, or in the environment variable `url_env`.

    Raises:
        UserError: neither or both were given.
    """
    path: str = getattr(options, "path", "")
    if "path" in options.__struct_fields__ and bool(path) == bool(options.url or options.url_env):
        raise UserError(
            f"{retriever} needs one place: {retriever}[path=…] in this process, or {retriever}[url=…] of a server."
        )
    if path and "://" not in path:
        return str(Path(path).expanduser())
    _check_url(path, retriever)
    if not path and not options.url and not options.url_env:
        raise UserError(f"{retriever} needs the address of its server: {retriever}[url=…] or url_env=NAME.")
    return path or options.url or variable(options.url_env, "url_env", retriever)


def variable(name: str, parameter: str, retriever: str) -> str:
    """Return the value of the environment variable `name`; empty if the spec names none.

    Raises:
        UserError: the variable is not set.
    """
    value = os.environ.get(name, "").strip() if name else ""
    if name and not value:
        raise UserError(f"{retriever}[{parameter}={name}] names an environment variable that is not set: set {name}.")
    return value


def parse_json_object(text: str, parameter: str, retriever: str, example: str) -> dict[str, object]:
    """Parse a filter or options that are written as JSON; empty if there is no text.

    Raises:
        UserError: it is no object of JSON; the message shows the `example`.
    """
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as problem:
        raise UserError(
            f"Cannot read {parameter}={safe(text, 80)!r} of {retriever} as JSON: {problem}. Expected {example}, say."
        ) from None


def secrets_in(*texts: str) -> list[str]:
    """Return the parts of keys and addresses that must never be shown: all of them, and the password in an address."""
    passwords = [urlsplit(text).password or "" for text in texts if "://" in text]
    return [text for text in (*texts, *passwords) if text]


def query_encoding(options: ExternalParameters) -> Encoding:
    """Return the encoding of queries, as the retriever ``dense`` takes it, with the metric of the spec if it is set.

    Raises:
        UserError: `embed` names no embedder, or the card of a retriever that is not used this way.
    """
    spec, card = parse(options.embed) if "[" in options.embed else Spec(options.embed), None
    if spec.name in cards():
        card = card_encoding(spec)
    elif spec.name != "dense":
        spec = Spec("dense", {"model": spec.name, **spec.parameters})
    return encoding_of(spec.having(metric=options.metric) if options.metric else spec, card)[0]


def check_fields(options: ExternalParameters, existing_fields: Sequence[str], retriever: str) -> None:
    """Check that the engine has the fields. Title and document may be missing under their usual names.

    Args:
        options: The parameters.
        existing_fields: The engine's fields; of a dotted name the first part is enough. Empty: nothing is checked.
        retriever: Name for the error.

    Raises:
        UserError: a field does not exist; the message lists the existing ones.
    """
    existing = set(existing_fields)
    for purpose in FIELDS if existing else ():
        name: str = getattr(options, purpose)
        optional = purpose in ("title", "document") and name in ("", purpose)
        optional = optional or (purpose == "vector" and options.mode == "text")
        if name not in existing and name.split(".")[0] not in existing and not optional:
            listed = ", ".join(sorted(safe(field, 60) for field in existing if field)[:40])
            raise UserError(
                f"{retriever} has no field {name!r} for {purpose}=….{nearest(name, existing)} Its fields are {listed}."
            )
