"""Options of a model, ``provider:model[temperature=0,max_tokens=512,…]``, and model cards: templates of prompts for the
completions API."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.base.addresses import check_http_address
from ragrounds.base.contracts import Continuation
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.records import Message
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.models.prices import Price
from ragrounds.models.retries import RetryPolicy

NONE = "none"


class ModelCard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prompt template for the completions API, with its stop strings and the model's window."""

    summary: str
    source: str
    system: str
    user: str
    assistant: str
    opening: str
    """Text that begins the assistant's turn."""
    names: tuple[str, ...] = ()
    """Parts of a model's name, in lower case, that select this card."""
    stops: tuple[str, ...] = ()
    window: int | None = None
    demonstration: tuple[str, str] | None = None
    """User's and assistant's turn that are shown before the real ones."""

    def render(self, messages: Sequence[Message], prefix: str = "") -> str:
        """Return the conversation as one text that the model continues. Nothing in a turn's text is interpreted."""
        system = [message for message in messages if message.role == "system"]
        dialogue = [message for message in messages if message.role != "system"]
        if self.demonstration:
            example = (Message("user", self.demonstration[0]), Message("assistant", self.demonstration[1]))
            dialogue = [*example, *dialogue]
        frames = {"system": self.system, "user": self.user, "assistant": self.assistant, "tool": self.user}
        turns = (frames[message.role].replace("$text", message.content) for message in (*system, *dialogue))
        return "".join(turns) + self.opening + prefix


@functools.cache
def cards() -> Mapping[str, ModelCard]:
    """Return all cards by name."""
    text = files("ragrounds.models").joinpath("cards.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, ModelCard])


@functools.lru_cache(maxsize=256)
def card_name(model: str, requested_card: str | None = None) -> str | None:
    """Return the name of a model's card; ``None`` if it has none and gets chat turns.

    Raises:
        UserError: `requested_card` is not the name of a card.
    """
    if requested_card == NONE:
        return None
    if requested_card is not None:
        if requested_card not in cards():
            raise unknown("model card", requested_card, [*cards(), NONE], "docs/reference/strategies.md")
        return requested_card
    return next((name for name, card in cards().items() if any(part in model.lower() for part in card.names)), None)


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


@functools.lru_cache(maxsize=64)
def _addresses(base_url: str) -> tuple[str, ...]:
    """Return the addresses of a list with commas, without duplicates. Every question asks for them."""
    addresses = (url.strip().rstrip("/") for url in base_url.split(","))
    return tuple(dict.fromkeys(url for url in addresses if url))


class Serving(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Address of the model's server, and limits. `alias` replaces `base_url` in the identity, so that a server may
    move."""

    base_url: str | None = None
    """One address, or several with commas between them: calls are balanced over these by load."""
    alias: str | None = None
    """Name of a server, or of a group of servers, which must have one."""
    fingerprint: str | None = None
    """Fingerprint that selects one of the servers known under this address or alias; ``None``: the first. Runs set
    it."""
    window: int | None = None
    schemas: bool = False
    """True if the server makes replies follow a JSON schema; set for kinds of servers that are known to."""
    timeout: float = 600.0
    tries: int = 6
    patience: float = 300.0
    rpm: float | None = None
    """Requests per minute allowed for this server, summed over all models with this limit."""
    tpm: float | None = None
    """Tokens per minute (prompt plus answer) allowed for this server."""
    price_input: float | None = None
    price_output: float | None = None
    price_gpu_hour: float | None = None
    """Dollars for an hour of one GPU, charged for the time that the server is busy."""
    gpus: int | None = None
    """GPUs of the server; by default `tensor_parallel`, or 1."""
    stream: bool = False
    """True to stream answers: for servers behind a proxy that cuts silent connections."""

    def __post_init__(self) -> None:
        for url in self.urls:
            check_http_address(url, "set OPENAI_API_KEY (VLLM_API_KEY for vllm:), which is never stored")
        if len(self.urls) > 1 and not self.alias:
            raise UserError(
                f"{len(self.urls)} servers share the calls ({', '.join(self.urls)}), and the group has no name. Give "
                "it one with --alias NAME, or alias=NAME inside the model. Recorded calls are stored under this "
                "name, so servers may join, leave or move; other servers need another name."
            )

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses without duplicates."""
        return _addresses(self.base_url or "")

    @property
    def retries(self) -> RetryPolicy:
        """Limits of the retries of a call."""
        return RetryPolicy(tries=self.tries, seconds=self.patience)

    @property
    def price(self) -> Price | None:
        """Price that was set; ``None`` if none was set, or only one of input and output."""
        if self.price_gpu_hour is not None:
            return Price(gpu_hour=self.price_gpu_hour, gpus=self.gpus)
        if self.price_input is None or self.price_output is None:
            return None
        return Price(input=self.price_input, output=self.price_output)


class ChatFormat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Format of the model's prompts. It changes what is sent, so it is a part of the model's identity."""

    card: str | None = None
    """Card of ``cards.toml``; by default the one that fits the model's name. ``none``: chat turns."""
    continues: Continuation | None = None
    """Way in which it continues its own text: by default ``prefix`` if the server can (vLLM; any card), else
    ``turns``."""


class Weights(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Weights and arithmetic of a ``vllm:`` model's server: a part of the model's identity."""

    revision: str | None = None
    """Branch, tag or commit of the weights."""
    quantization: str | None = None
    dtype: str | None = None
    extra: str | None = None
    """Further arguments of ``vllm serve``, as one would type them. They may change replies."""


class VllmServerOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of the server of a ``vllm:`` model. Nothing here changes replies."""

    tensor_parallel: int | None = None
    """GPUs that the model is split over."""
    max_model_len: int | None = None
    """Maximal tokens of prompt and answer together: also the model's window here."""
    gpu_memory: float | None = None
    """Share of each GPU's memory, 0 to 1."""
    max_num_seqs: int | None = None
    """Requests that the server processes at once."""
    start_timeout: float = 1800.0
    """Seconds until it must be ready: weights may have to be downloaded."""


class LocalServerOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of the server of a ``local:`` model. Nothing here changes replies."""

    threads: int = 1
    """Processor threads; more are slower where other work uses the cores."""
    slots: int = 4
    """Requests that the server processes at once; a run sets it to its concurrency."""


class ModelOptions(Struct, frozen=True):
    """Parsed spec of a model."""

    provider: str
    model: str
    sampling: Sampling
    serving: Serving
    form: ChatFormat = ChatFormat()
    weights: Weights = Weights()
    engine: VllmServerOptions = VllmServerOptions()
    local: LocalServerOptions = LocalServerOptions()
    weights_path: str = ""
    """File of a ``local:`` model, if it was named; the model then has the file's name."""

    @property
    def has_server(self) -> bool:
        """True if an OpenAI-compatible server with a known address answers."""
        return self.provider == "openai" or (self.provider in STARTED and bool(self.serving.urls))

    @property
    def starts_server(self) -> bool:
        """True if this process would start a server for the model."""
        return self.provider in STARTED and not self.serving.urls

    @property
    def window(self) -> int | None:
        """Window that was set."""
        return self.serving.window or self.engine.max_model_len

    @property
    def gpus(self) -> int:
        """GPUs of the model's server."""
        return self.serving.gpus or self.engine.tensor_parallel or 1

    @property
    def card(self) -> str | None:
        """Name of the model's card, if it has one."""
        return card_name(self.model, self.form.card)

    @property
    def continues(self) -> Continuation:
        """Way in which the model continues its own text."""
        return self.form.continues or ("prefix" if self.card or self.provider in STARTED else "turns")

    @property
    def identity(self) -> str:
        """Canonical text of all that determines a reply: name, sampling, and the server (or its alias).

        The address of a server that serves named weights is left out: its port may change.
        """
        parameters = self._server_parameters | msgspec.to_builtins(self.sampling)
        if self.card:
            parameters["card"] = self.card
        if self.form.continues:
            parameters["continues"] = self.form.continues
        if self.serving.fingerprint:
            parameters["fingerprint"] = self.serving.fingerprint
        return str(Spec(f"{self.provider}:{self.model}", parameters))

    @property
    def server(self) -> str:
        """Canonical text of the requested model: its name, its weights, and the server (or its alias).

        Facts that a server reports of the model are stored under it, whatever the sampling.
        """
        return str(Spec(f"{self.provider}:{self.model}", self._server_parameters))

    @property
    def _server_parameters(self) -> dict[str, Value]:
        parameters: dict[str, Value] = dict(msgspec.to_builtins(self.weights))
        server = self.serving.alias or ("" if self.provider in STARTED else "".join(self.serving.urls))
        if server:
            parameters["server"] = server.rstrip("/")
        return parameters


VLLM = "vllm"
"""Provider whose models are served by vLLM: started here, or joined by `base_url`."""
LOCAL = "local"
"""Provider whose models are GGUF files, which llama.cpp serves on this machine."""
STARTED = (VLLM, LOCAL)
SMOLLM2 = f"{LOCAL}:smollm2"
"""Model whose weights are a package."""
SMOLLM2_CAVEAT = (
    "smollm2 has 135 million parameters and answers near chance: its figures show that the pipeline works, and say "
    "nothing about agents or medicine."
)
_LOCAL_TIMEOUT = 3600.0
"""Default of `timeout`: calls in flight share one processor core."""
WHERE = ("base_url", "alias")
"""Parameters with a server's address: both are taken from the model's text, or both from the command."""

_PARTS: Mapping[str, type[Struct]] = {
    "sampling": Sampling,
    "serving": Serving,
    "form": ChatFormat,
    "weights": Weights,
    "engine": VllmServerOptions,
    "local": LocalServerOptions,
}
"""Parts of :class:`ModelOptions` that a model's text sets, in one flat list of parameters."""
_NAMES = {part: {field.name for field in msgspec.structs.fields(kind)} for part, kind in _PARTS.items()}
_PROVIDER_OF = {"weights": VLLM, "engine": VLLM, "local": LOCAL}
"""Parts that only one provider's models have."""


@functools.cache
def _parameters_of(provider: str) -> Set[str]:
    """Return the names of the parameters that a provider's models have."""
    return {name for part in _PARTS if _PROVIDER_OF.get(part, provider) == provider for name in _NAMES[part]}


def read_options(spec: Spec) -> ModelOptions:
    """Parse a model's spec.

    Raises:
        UserError: the provider is missing, a parameter is unknown, or a value has the wrong type.
    """
    provider, colon, model = spec.name.partition(":")
    if not colon or not model:
        raise UserError(
            f"The model {spec.name!r} has no provider. Expected provider:model, such as openai:gpt-4o-mini, or "
            "baseline:extractive for the built-in baseline."
        )
    names = _parameters_of(provider)
    for key in spec.parameters:
        if key not in names:
            raise UserError(
                f"A model has no parameter {key!r}.{nearest(key, names)} Known: {', '.join(sorted(names))}."
            )
    plain: dict[str, Any] = {"timeout": _LOCAL_TIMEOUT} if provider == LOCAL else {}
    plain |= {key: str(value) if isinstance(value, Spec) else value for key, value in spec.parameters.items()}
    try:
        groups: dict[str, Any] = {
            part: msgspec.convert({key: plain[key] for key in plain.keys() & _NAMES[part]}, kind)
            for part, kind in _PARTS.items()
        }
    except msgspec.ValidationError as error:
        raise UserError(f"The model {str(spec)!r}: {error}") from error
    if provider == LOCAL and model.lower().endswith(".gguf"):
        groups["weights_path"], model = model, re.split(r"[/\\]", model)[-1]
    options = ModelOptions(provider, model, **groups)
    try:
        options.serving.price  # noqa: B018
    except ValueError as error:
        raise UserError(f"The price of the model {str(spec)!r}: {error}.") from error
    return options


def with_defaults(text: str, defaults: Mapping[str, Value | None]) -> str:
    """Return a model's text with defaults for the parameters that it does not set.

    The baseline accepts none. A `base_url` and its `alias` are only for ``openai:``, whose protocol other servers
    speak, and ``vllm:``, if the text names no server.
    """
    spec = parse(text)
    provider = spec.name.partition(":")[0]
    if provider == "baseline":
        return text
    placed = "base_url" in spec.parameters or provider not in ("openai", VLLM)
    unset = _parameters_of(provider) - spec.parameters.keys() - (set(WHERE) if placed else set())
    filled = {key: value for key, value in defaults.items() if value is not None and key in unset}
    return str(spec.having(**filled))


@functools.lru_cache(maxsize=1024)
def server_of(identity: str) -> str:
    """Return :attr:`ModelOptions.server` of a model's identity: without sampling and without the server's
    fingerprint."""
    spec = parse(identity)
    return str(Spec(spec.name, {k: v for k, v in spec.parameters.items() if k == "server" or k in _NAMES["weights"]}))


def uses_vllm(texts: Iterable[str]) -> bool:
    """Return True if vLLM serves one of these models, given by their texts."""
    return any(text.startswith(f"{VLLM}:") for text in texts)


def starts_server(text: str) -> bool:
    """Return True if a model, given by its text or its identity, needs a server that this process would start."""
    spec = parse(text)
    return spec.name.partition(":")[0] in STARTED and "base_url" not in spec.parameters
