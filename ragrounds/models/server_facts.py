"""What a server says of the model that it is asked for: its ``/models``, and its version where it gives one.

Only what stays the same when the same server is started again is taken: not when it was started, not what it has
loaded beside, not its load. A server that does not answer these, or answers something else, has not told: that is no
error, and no call of a model.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.http import read_json
from ragrounds.base.text import safe, wellformed
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.options import ModelOptions

if TYPE_CHECKING:
    from ragrounds.models.transport import Transport

TIMEOUT = 5.0
"""Seconds that all that a server is asked here may take."""
_LISTED = ("id", "root", "parent", "owned_by", "max_model_len", "hugging_face_id", "canonical_slug")
"""Fields of an entry of ``/models``. Not `created`: vLLM gives the time of the question there."""
_WEIGHTS = ("n_params", "size", "n_vocab", "vocab_type", "n_embd", "n_ctx_train")
"""Fields of llama.cpp's `meta`, which describe the weights."""
_LONGEST = 200
"""Characters of a fact; of a longer one a digest is taken."""
WINDOW = "max_model_len"

Facts = Mapping[str, str]
"""Fact → value, both as text; empty: the server told nothing."""


def fingerprint(facts: Facts) -> str:
    """Twelve hexadecimal digits of what a server told."""
    return hashlib.sha256(msgspec.json.encode(dict(facts), order="deterministic")).hexdigest()[:12]


def differing(before: Facts, now: Facts) -> list[str]:
    """The facts that were told both times, and not alike."""
    return [name for name in before if name in now and before[name] != now[name]]


def same_server(before: Facts, now: Facts) -> bool:
    """Whether both may come from the same server: something was told both times, and nothing differs."""
    return not differing(before, now) and any(name in now for name in before)


def described(facts: Facts, names: list[str]) -> str:
    """Some facts in words, for one line."""
    return ", ".join(f"{name} {facts[name]}" for name in names)


async def ask_servers(options: ModelOptions) -> Facts:
    """What the servers of a model say of it; of several what any of them says.

    Raises:
        UserError: they do not agree.
    """
    from ragrounds.models.openai_compatible import key_of  # here: aiohttp is slow, and most commands ask no server

    urls = options.serving.urls
    told = await asyncio.gather(*(ask_server(url, options.model, key_of(options)) for url in urls))
    agreed: dict[str, str] = {}
    for place, (url, facts) in enumerate(zip(urls, told, strict=True)):
        for other, others in zip(urls[:place], told[:place], strict=True):
            if names := differing(others, facts):
                raise UserError(
                    f"The servers of {options.server} differ: {other} reports {described(others, names)}, {url} "
                    f"reports {described(facts, names)}. Servers that share calls must run the same model: leave one "
                    "out, or restart it like the others."
                )
        agreed |= facts
    return agreed


async def ask_server(url: str, model: str, key: str) -> Facts:
    """What one server says of a model; without a key, as of one that is not ours, what it lists alone. Nothing that
    goes wrong here is an error: it has not told."""
    from ragrounds.models.transport import Transport

    headers = None if key else dict[str, str]()
    server, root = (Transport(place, key, TIMEOUT, headers=headers) for place in (url, url.removesuffix("/v1")))
    facts: dict[str, str] = {}
    try:
        async with asyncio.timeout(TIMEOUT):
            listed = await _told(server, "/models")
            facts |= _entry(listed, model)
            own = [probe for probe in _PROBES if probe.owner == facts.get("owned_by")]
            # A long list without the model is a router's, which says nothing of one server.
            for probe in (own or (_PROBES if facts or listed is None else ())) if key else ():
                found = dict(probe.read(await _told(root, probe.path), model))
                facts |= found
                if found and not own:
                    break
    except (TimeoutError, Transient, CallFailed, UserError):
        pass
    finally:
        for transport in (server, root):
            await transport.close()
    return {name: server.redact(value) for name, value in facts.items()}


async def _told(server: Transport, path: str) -> object:
    """The JSON that a server answers; ``None``: something else."""
    answer = await server.get(path)
    if answer.status != 200:
        return None
    try:
        return read_json(answer.body)
    except ValueError:
        return None


def _entry(listed: object, model: str) -> dict[str, str]:
    """What ``/models`` says of a model. A server with one model answers with that, whatever it is asked for
    (llama.cpp); where several are listed without it, a router may know more than it lists."""
    entries = _entries(_fields(listed).get("data"))
    # Ollama lists NAME:latest.
    named = [one for one in entries if one.get("id") in (model, f"{model}:latest")] or entries
    if len(named) != 1:
        return {}
    entry = named[0]
    return dict(_facts(entry, _LISTED)) | dict(_facts(_fields(entry.get("meta")), _WEIGHTS))


def _facts(fields: Mapping[str, object], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            yield name, _short(str(value))


def _short(value: str) -> str:
    text = " ".join(safe(wellformed(value)).split())
    return text if len(text) <= _LONGEST else f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _entries(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _fields(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


class Probe(Struct, frozen=True):
    """Where a kind of server says which version it is."""

    owner: str
    """What it writes into `owned_by`; empty: nothing of its own."""
    path: str
    """Beside ``/v1``."""
    fields: tuple[str, ...]

    def read(self, told: object, model: str) -> Iterator[tuple[str, str]]:
        """The facts in an answer: its own, those of llama.cpp's settings, and of Ollama's weights by that name."""
        fields = _fields(told)
        yield from _facts(fields, self.fields)
        yield from _facts(_fields(fields.get("default_generation_settings")), self.fields)
        for one in _entries(fields.get("models")):
            if one.get("name") in (model, f"{model}:latest"):
                yield from _facts(one, self.fields)


_PROBES = (
    Probe("vllm", "/version", ("version",)),
    Probe("llamacpp", "/props", ("build_info", "model_path", "chat_template", "n_ctx")),
    Probe("library", "/api/tags", ("digest",)),
    Probe("library", "/api/version", ("version",)),
    Probe("sglang", "/get_model_info", ("model_path", "weight_version")),
    Probe("", "/info", ("model_id", "model_sha", "model_dtype", "version", "max_total_tokens")),
)
