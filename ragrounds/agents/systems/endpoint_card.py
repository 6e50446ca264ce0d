"""What an agent's file says of an address that answers questions: where it is, what it is sent, what its reply means.

Nothing here sends anything. A key never stands in the file: it names environment variables.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.redaction import redacted
from ragrounds.base.specs import Spec
from ragrounds.models.prices import Price
from ragrounds.recorder.answers import FIELDS

GIVEN = (*FIELDS, "choices", "id", "thread")
"""What a request can hold beside the agent's parameters: all that a graph can be given, the options as an object, the
question's id, and an id of the attempt alone."""
Form = Literal["openai", "json"]
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_UNSET = ("timeout", "tries", "patience", "concurrency", "rpm", "price", "key", "headers")
"""What changes no reply."""


class PassageMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a reply tells what it answered from. The paths but `list` begin at one item of the list."""

    list: str
    text: str = "text"
    title: str = "title"
    id: str = "id"
    score: str = "score"


class UsageMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a reply tells what it cost; empty: it does not."""

    input: str = ""
    output: str = ""
    cached: str = ""
    reasoning: str = ""
    cost: str = ""
    """Dollars, as the server counts them: they come before any price."""
    model: str = ""
    """The name of the model that answered."""


class EndpointCard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The table ``[endpoint]`` of an agent's file."""

    url: str
    form: Form
    model: str = ""
    """``openai``: the name that is asked for. ``json``: what its prices are listed under."""
    alias: str = ""
    """Stands for the address in every identity, so that the server may move."""
    key: str = ""
    """The environment variable whose value is sent as ``Authorization: Bearer …``."""
    headers: dict[str, str] = field(default_factory=dict)
    """Header → the environment variable that holds its value."""
    request: dict[str, object] = field(default_factory=dict)
    """``json``: the body. ``openai``: what is sent beside the model and the messages. Texts may hold ``{prompt}`` and
    others of :data:`GIVEN`, and the agent's parameters."""
    answer: str = ""
    """The path of the answer's text; ``.`` is the whole reply."""
    choice: str = ""
    """The path of the letter."""
    passages: PassageMap | None = None
    usage: UsageMap | None = None
    stream: bool = False
    """``openai``: have the answer sent as it is written, for servers behind something that cuts silent connections."""
    timeout: float = 600.0
    """Seconds that a whole reply may take."""
    tries: int = 6
    patience: float = 300.0
    """Seconds after which a failed call is not tried again."""
    concurrency: int | None = None
    """Calls at once, at most, of one process."""
    rpm: float | None = None
    """Calls a minute, at most."""
    price: Price | None = None

    @property
    def place(self) -> str:
        """Scheme, host and port."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """What follows the place."""
        parts = urllib.parse.urlsplit(self.url)
        return urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))

    @property
    def spec(self) -> str:
        """Canonical text of what is asked, as a model's: form, name and address (or its alias)."""
        name = self.model or urllib.parse.urlsplit(self.url).netloc
        return str(Spec(f"{self.form}:{name}", {"server": self.alias or self.url.rstrip("/")}))

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that hold its keys."""
        return tuple(dict.fromkeys((*((self.key,) if self.key else ()), *self.headers.values())))

    @property
    def settled(self) -> dict[str, object]:
        """All that a result depends on: no keys, prices, time-outs or limits; of an alias, not the address."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return {
            name: value for name, value in plain.items() if name not in _UNSET and not (self.alias and name == "url")
        }

    def digest(self) -> str:
        """Hash of :attr:`settled`."""
        return hashlib.sha256(msgspec.json.encode(self.settled, order="deterministic")).hexdigest()[:16]

    def check(self, name: str, parameters: Collection[str]) -> None:
        """Check what can be checked without sending anything.

        Args:
            name: what the agent is called, for errors.
            parameters: the names of its parameters.

        Raises:
            UserError: a key stands in it, or the fields do not fit together.
        """
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise UserError(f"{name}: url = {redacted(self.url)!r} is no address: expected http://… or https://….")
        check_address(self.url, 'give the name of the environment variable: key = "MY_KEY"')
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
        known = (*GIVEN, *parameters)
        for given in placeholders(self.request):
            if given not in known:
                raise UserError(
                    f"{name}: request holds {{{given}}}, which is unknown.{nearest(given, known)} Known: "
                    f"{', '.join(known)}. A brace itself is written twice."
                )


def placeholders(template: object) -> Iterator[str]:
    """The names in braces of a template's texts."""
    if isinstance(template, str):
        yield from (found[1] for found in _FIELD.finditer(template) if found[1])
    elif isinstance(template, Mapping):
        for part in template.values():
            yield from placeholders(part)
    elif isinstance(template, Sequence):
        for part in template:
            yield from placeholders(part)


def filled(template: object, values: Mapping[str, object]) -> object:
    """A template with what its names in braces stand for. Nothing in a value is interpreted. A text that is one name
    and nothing else becomes the value itself, which may be a list, an object or a number."""
    if isinstance(template, Mapping):
        return {key: filled(part, values) for key, part in template.items()}
    if not isinstance(template, str):
        return [filled(part, values) for part in template] if isinstance(template, Sequence) else template
    whole = _FIELD.fullmatch(template)
    if whole and whole[1] in values:
        return values[whole[1]]

    def one(found: re.Match[str]) -> str:
        """What stands for one name, or for a doubled brace."""
        name = found[1]
        if not name:
            return found[0][0]
        value = values.get(name, found[0])
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return _FIELD.sub(one, template)


def keys_of(value: object) -> str:
    """What a JSON value has, in a few words, for an error."""
    if isinstance(value, Mapping):
        names = ", ".join(repr(str(key)[:40]) for key in list(value)[:12])
        return f"an object with {names}" if names else "an empty object"
    return f"a list of {len(value)}" if isinstance(value, list) else f"{type(value).__name__}"
