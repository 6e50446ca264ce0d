"""Configuration of an endpoint in an agent's file: its address, its requests, and the meaning of its replies.

Nothing here sends requests. The file never contains a key: it names environment variables.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from ragrounds.base.addresses import check_http_address
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.specs import Spec
from ragrounds.models.prices import Price
from ragrounds.recorder.answers import FIELDS

GIVEN = (*FIELDS, "choices", "id", "thread")
"""Fields that a request can contain, in addition to the agent's parameters.

These are all fields of a graph's input, the options as an object, the question's id, and an id of the attempt.
"""
Form = Literal["openai", "json"]
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_NOT_IN_IDENTITY = ("timeout", "tries", "patience", "concurrency", "rpm", "price", "key", "headers")
"""Fields that do not change replies."""


class PassageMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Paths of the passages in a reply. All paths except `list` are relative to an entry of the list."""

    list: str
    text: str = "text"
    title: str = "title"
    id: str = "id"
    score: str = "score"


class UsageMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Paths of the usage in a reply. Empty if the reply does not contain it."""

    input: str = ""
    output: str = ""
    cached: str = ""
    reasoning: str = ""
    cost: str = ""
    """Path of the cost in US dollars, as the server reports it. It takes precedence over any price."""
    model: str = ""
    """Path of the name of the model that answered."""


class EndpointCard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The table ``[endpoint]`` of an agent's file."""

    url: str
    form: Form
    model: str = ""
    """``openai``: requested model. ``json``: name under which its prices are listed."""
    alias: str = ""
    """Name that replaces the address in every identity, so that the server can move."""
    key: str = ""
    """Environment variable whose value is sent as ``Authorization: Bearer …``."""
    headers: dict[str, str] = field(default_factory=dict)
    """Header → environment variable that contains its value."""
    request: dict[str, object] = field(default_factory=dict)
    """``json``: the body. ``openai``: fields in addition to the model and the messages. Texts may contain ``{prompt}``
    and others of :data:`GIVEN`, and the agent's parameters.
    """
    answer: str = ""
    """Path of the answer's text. ``.`` is the whole reply."""
    choice: str = ""
    """Path of the letter."""
    passages: PassageMap | None = None
    usage: UsageMap | None = None
    stream: bool = False
    """``openai``: True to stream the answer, for servers behind a proxy that cuts silent connections."""
    timeout: float = 600.0
    """Maximum number of seconds of a whole reply."""
    tries: int = 6
    patience: float = 300.0
    """Seconds after which a failed call is not retried."""
    concurrency: int | None = None
    """Maximum number of concurrent calls of one process."""
    rpm: float | None = None
    """Maximum number of calls per minute."""
    price: Price | None = None

    @property
    def base_url(self) -> str:
        """Return scheme, host and port."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """Return the path and query of the address."""
        parts = urllib.parse.urlsplit(self.url)
        return urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))

    @property
    def spec(self) -> str:
        """Return the canonical text of the endpoint, as for a model: form, name and address (or its alias)."""
        name = self.model or urllib.parse.urlsplit(self.url).netloc
        return str(Spec(f"{self.form}:{name}", {"server": self.alias or self.url.rstrip("/")}))

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables that contain its keys."""
        return tuple(dict.fromkeys((*((self.key,) if self.key else ()), *self.headers.values())))

    @property
    def settled(self) -> dict[str, object]:
        """Return all fields that a result depends on: no keys, prices, time-outs or limits. An alias replaces the
        address.
        """
        plain: dict[str, object] = msgspec.to_builtins(self)
        return {
            name: value
            for name, value in plain.items()
            if name not in _NOT_IN_IDENTITY and not (self.alias and name == "url")
        }

    def digest(self) -> str:
        """Return a hash of :attr:`settled`."""
        return hashlib.sha256(msgspec.json.encode(self.settled, order="deterministic")).hexdigest()[:16]

    def check(self, name: str, parameters: Collection[str]) -> None:
        """Check the configuration as far as possible without sending a request.

        Args:
            name: the agent's name, for errors.
            parameters: the names of its parameters.

        Raises:
            UserError: it contains a key, or the fields do not fit together.
        """
        check_http_address(self.url, 'give the name of the environment variable: key = "MY_KEY"')
        for header, variable in (("key", self.key), *self.headers.items()):
            if variable and not _VARIABLE.fullmatch(variable):
                raise UserError(
                    f"{name}: {header} is not the name of an environment variable, such as MY_AGENT_KEY. Never write "
                    "a key into the file."
                )
        if self.form == "openai" and not self.model:
            raise UserError(f"{name}: an endpoint of the form 'openai' needs model = \"…\".")
        if self.stream and (self.form != "openai" or self.passages or self.usage or self.answer or self.choice):
            raise UserError(f"{name}: stream is for the form 'openai' without paths: a streamed reply is a text alone.")
        if self.usage and not self.usage.cost and bool(self.usage.input) != bool(self.usage.output):
            raise UserError(f"{name}: usage needs the paths of input and output, or of cost.")
        for limit in ("timeout", "tries", "concurrency", "rpm"):
            if (value := getattr(self, limit)) is not None and value <= 0:
                raise UserError(f"{name}: {limit} = {value:g}; expected more than 0.")
        accepted = (*GIVEN, *parameters)
        for field_name in placeholders(self.request):
            if field_name not in accepted:
                raise UserError(
                    f"{name}: request holds {{{field_name}}}, which is unknown.{nearest(field_name, accepted)} Known: "
                    f"{', '.join(accepted)}. A brace itself is written twice."
                )


def placeholders(template: object) -> Iterator[str]:
    """Yield the names in braces of a template's texts."""
    if isinstance(template, str):
        yield from (match[1] for match in _FIELD.finditer(template) if match[1])
    elif isinstance(template, Mapping):
        for part in template.values():
            yield from placeholders(part)
    elif isinstance(template, Sequence):
        for part in template:
            yield from placeholders(part)


def filled(template: object, values: Mapping[str, object]) -> object:
    """Fill in a template: replace its names in braces by values. Values are never interpreted.

    A text that is a single name becomes the value itself, which may be a list, an object or a number.
    """
    if isinstance(template, Mapping):
        return {key: filled(part, values) for key, part in template.items()}
    if not isinstance(template, str):
        return [filled(part, values) for part in template] if isinstance(template, Sequence) else template
    only_name = _FIELD.fullmatch(template)
    if only_name and only_name[1] in values:
        return values[only_name[1]]

    def replacement(match: re.Match[str]) -> str:
        """Return the replacement of one name, or of a doubled brace."""
        name = match[1]
        if not name:
            return match[0][0]
        value = values.get(name, match[0])
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return _FIELD.sub(replacement, template)


def keys_of(value: object) -> str:
    """Describe a JSON value in a few words, for an error."""
    if isinstance(value, Mapping):
        names = ", ".join(repr(str(key)[:40]) for key in list(value)[:12])
        return f"an object with {names}" if names else "an empty object"
    return f"a list of {len(value)}" if isinstance(value, list) else f"{type(value).__name__}"
