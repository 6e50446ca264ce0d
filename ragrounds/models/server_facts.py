"""Facts that a server reports of a model: its entry in ``/models``, and its version if available.

Only facts that survive a restart of the same server are taken: not the time of its start, not other loaded models, not
its load. A server that does not answer these requests, or answers something else, reports nothing: that is no error,
and no model call.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.http import read_json
from ragrounds.base.text import safe, wellformed
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.options import LOCAL, ModelOptions
from ragrounds.models.wire_parts import objects_in

if TYPE_CHECKING:
    from ragrounds.models.transport import Transport

TIMEOUT, _SILENT = 5.0, 1.5
"""Seconds that all requests to a server may take here, and seconds without an answer until a message."""
_LISTED = ("id", "root", "parent", "owned_by", "max_model_len", "hugging_face_id", "canonical_slug")
"""Fields of an entry of ``/models``. `created` is left out: vLLM sets it to the time of the request."""
_WEIGHTS = ("n_params", "size", "n_vocab", "vocab_type", "n_embd", "n_ctx_train")
"""Fields of llama.cpp's `meta`, which describe the weights."""
_LONGEST = 200
"""Maximal characters of a fact; a longer one is replaced by a digest."""
WINDOWS = ("max_model_len", "n_ctx", "max_total_tokens")
"""Facts that give the tokens of prompt and answer together."""
TOOLS = "supports_tools"
"""Fact that is False if the chat template leaves out tools."""
_LOCATIONS = ("root", "model_path")
"""Facts that may be a path, whose last part names the weights."""

Facts = Mapping[str, str]
"""Fact → value, both as text; empty: the server reported nothing."""


def fingerprint(facts: Facts) -> str:
    """Return twelve hexadecimal digits that identify the facts of a server."""
    return hashlib.sha256(msgspec.json.encode(_identity(facts), order="deterministic")).hexdigest()[:12]


def _identity(facts: Facts) -> dict[str, str]:
    """Return the facts that identify weights, template and version, without folders and without the window."""
    return {
        name: re.split(r"[/\\]", value)[-1] if name in _LOCATIONS and PurePath(value).is_absolute() else value
        for name, value in facts.items()
        if name not in (*WINDOWS, TOOLS)
    }


def window_of(facts: Facts) -> int | None:
    """Return the tokens that prompt and answer may have together; ``None`` if the server does not report them."""
    windows = [int(facts[name]) for name in WINDOWS if facts.get(name, "").isdecimal()]
    return min(filter(None, windows), default=None)


def follows_schemas(facts: Facts) -> bool:
    """Return True for llama.cpp, vLLM, SGLang and Ollama, which make replies follow a JSON schema."""
    return facts.get("owned_by") in ("llamacpp", "vllm", "sglang", "library")


def differing(before: Facts, now: Facts) -> list[str]:
    """Return the facts that identify a server and were reported both times with different values."""
    earlier, present = _identity(before), _identity(now)
    return [name for name in earlier if name in present and earlier[name] != present[name]]


def same_server(before: Facts, now: Facts) -> bool:
    """Return True if both may come from the same server: they share a fact, and no shared fact differs."""
    return not differing(before, now) and any(name in now for name in _identity(before))


def described(facts: Facts, names: list[str]) -> str:
    """Return some facts in words, for one line."""
    return ", ".join(f"{name} {facts[name]}" for name in names)


async def ask_servers(options: ModelOptions) -> Facts:
    """Return the facts that the servers of a model report; of several servers, the union.

    The facts of a local model come from its file.

    Raises:
        UserError: the servers do not agree.
    """
    from ragrounds.models.openai_compatible import (
        key_of,
    )  # imported late: aiohttp is slow, and most commands ask no server

    if options.provider == LOCAL:
        from ragrounds.models.llama_cpp import weights_facts

        return await asyncio.to_thread(weights_facts, options)
    urls = options.serving.urls
    answers = await asyncio.gather(*(ask_server(url, options.model, key_of(options)) for url in urls))
    agreed: dict[str, str] = {}
    for index, (url, facts) in enumerate(zip(urls, answers, strict=True)):
        for other, other_facts in zip(urls[:index], answers[:index], strict=True):
            if names := differing(other_facts, facts):
                raise UserError(
                    f"The servers of {options.server} differ: {other} reports {described(other_facts, names)}, {url} "
                    f"reports {described(facts, names)}. Servers that share calls must run the same model: leave one "
                    "out, or restart it like the others."
                )
        windows = [window_of(reported) or sys.maxsize for reported in (agreed, facts)]
        agreed = {**facts, **agreed} if windows[0] <= windows[1] else {**agreed, **facts}
    return agreed


async def ask_server(url: str, model: str, key: str) -> Facts:
    """Return the facts that one server reports of a model. Failures are no errors: nothing is then reported.

    Without a key, for a server that is not the user's, only its list of models is read.
    """
    from ragrounds.models.transport import Transport

    headers = None if key else dict[str, str]()
    server, root = (Transport(address, key, TIMEOUT, headers=headers) for address in (url, url.removesuffix("/v1")))
    facts: dict[str, str] = {}
    message = f"Waiting {TIMEOUT:g} s at most for {server.redact(safe(url, 200))}, which has not said what it serves."
    notice = asyncio.get_running_loop().call_later(_SILENT, partial(print, message, file=sys.stderr, flush=True))
    try:
        async with asyncio.timeout(TIMEOUT):
            listed = await _get_json(server, "/models")
            facts |= _entry(listed, model)
            matching = [probe for probe in _PROBES if probe.owner == facts.get("owned_by")]
            # A long list without the model is a router's, which does not describe a single server.
            for probe in (matching or (_PROBES if facts or listed is None else ())) if key else ():
                probed = dict(probe.read(await _get_json(root, probe.path), model))
                facts |= probed
                if probed and not matching:
                    break
    except (TimeoutError, Transient, CallFailed, UserError):
        pass
    finally:
        notice.cancel()
        for transport in (server, root):
            await transport.close()
    return {name: server.redact(value) for name, value in facts.items()}


async def _get_json(server: Transport, path: str) -> object:
    """Return the JSON of a server's answer; ``None`` for anything else."""
    answer = await server.get(path)
    if answer.status != 200:
        return None
    try:
        return read_json(answer.body)
    except ValueError:
        return None


def _entry(listed: object, model: str) -> dict[str, str]:
    """Return the facts of a model's entry in ``/models``.

    A server with one model returns that, whatever was requested (llama.cpp). If several are listed without the model,
    the result is empty: a router may know more than it lists.
    """
    entries = objects_in(_fields(listed).get("data"))
    # Ollama lists NAME:latest.
    matches = [entry for entry in entries if entry.get("id") in (model, f"{model}:latest")] or entries
    if len(matches) != 1:
        return {}
    entry = matches[0]
    return dict(_facts(entry, _LISTED)) | dict(_facts(_fields(entry.get("meta")), _WEIGHTS))


def _facts(fields: Mapping[str, object], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            text = " ".join(safe(wellformed(str(value))).split())
            yield name, text if len(text) <= _LONGEST else f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _fields(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


class Probe(Struct, frozen=True):
    """Request that gets the version of a kind of server."""

    owner: str
    """Value of `owned_by` that identifies the kind; empty if it sets none."""
    path: str
    """Path next to ``/v1``."""
    fields: tuple[str, ...]

    def read(self, answer: object, model: str) -> Iterator[tuple[str, str]]:
        """Yield the facts in an answer: its own, those of llama.cpp's parts, and of Ollama's weights by that
        name."""
        fields = _fields(answer)
        yield from _facts(fields, self.fields)
        for part in ("default_generation_settings", "chat_template_caps"):
            yield from _facts(_fields(fields.get(part)), self.fields)
        for entry in objects_in(fields.get("models")):
            if entry.get("name") in (model, f"{model}:latest"):
                yield from _facts(entry, self.fields)


_PROBES = (
    Probe("vllm", "/version", ("version",)),
    Probe("llamacpp", "/props", ("build_info", "model_path", "chat_template", "n_ctx", TOOLS)),
    Probe("library", "/api/tags", ("digest",)),
    Probe("library", "/api/version", ("version",)),
    Probe("sglang", "/get_model_info", ("model_path", "weight_version")),
    Probe("", "/info", ("model_id", "model_sha", "model_dtype", "version", "max_total_tokens")),
)
