"""Comparison of the model that a reply names with the one that was requested.

Both names refer to the same model if, ignoring upper and lower case,

* they are equal, or only one has a router's or an owner's prefix (``openai/gpt-4o``, ``gpt-4o``); * the reply adds a
date or the number of a release (``gpt-4o-2024-08-06``, ``gpt-4-0613``, ``gemini-2.0-flash-001``,
  ``claude-3-5-sonnet@20240620``), or Ollama's ``:latest``; a name that ends with ``-latest`` may have these in its
  place;
* the request adds a way of routing, as OpenRouter has them (``…:free``); * the server itself lists the reply's name
with the model (vLLM's path or LoRA base, llama.cpp's file); * the reply gives the model's canonical text, as the
built-in baseline does (``baseline:extractive``).

A name without its date is a different name: the model behind it may have changed. Several names for one requested model
are always reported: the model changed during the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ragrounds.base.specs import parse
from ragrounds.base.text import fold

_RELEASE = r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})|:latest)"
_ROUTES = re.compile(r":(?:free|nitro|floor|online|extended|thinking|beta|exacto)$")
SERVED = ("id", "root", "parent", "model_path", "model_id", "canonical_slug", "hugging_face_id")
"""Fields of a server's model entry that may contain its name."""


def same_model(requested_model: str, reply_model: str, served: Collection[str] = ()) -> bool:
    """Return True if a reply's model is the requested one; `served` are names that the server gives the requested
    one."""
    requested, replied = fold(requested_model), fold(reply_model)
    if replied in {fold(name) for name in served}:
        return True
    requested = _ROUTES.sub("", requested)
    if "/" not in requested or "/" not in replied:
        requested, replied = (name.rpartition("/")[2] for name in (requested, replied))
    bases = {requested, requested.removesuffix("-latest")}
    return replied in bases or any(re.fullmatch(re.escape(base) + _RELEASE, replied) for base in bases)


def answered_otherwise(requested: str, reply_models: Mapping[str, int], served: Collection[str] = ()) -> str:
    """Describe replies of other models, or of several: ``answered by X in 12 of 200 calls, asked Y``; empty if neither.

    Args:
        requested: name of the requested model.
        reply_models: name in replies → number of replies.
        served: names that the server gives the model.
    """
    other_counts = {name: count for name, count in reply_models.items() if not same_model(requested, name, served)}
    names = {fold(name).rpartition("/")[2] for name in reply_models}
    reported = reply_models if not other_counts and len(names) > 1 else other_counts
    if not reported:
        return ""
    counted = [
        f"{name} in {count:,}" for name, count in sorted(reported.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    return f"answered by {' and '.join(counted)} of {sum(reply_models.values()):,} calls, asked {requested}"


def other_models(
    reply_models: Mapping[str, Mapping[str, int]], served: Mapping[str, Collection[str]] = {}
) -> list[str]:
    """Describe the replies of other models for several requested models.

    Args:
        reply_models: canonical text of the requested model → name in replies → number of replies.
        served: canonical text of the requested model → names that its server gives it.
    """
    sentences = [
        answered_otherwise(model_name(identity), names, (*served.get(identity, ()), parse(identity).name))
        for identity, names in sorted(reply_models.items())
    ]
    return [text for text in sentences if text]


def other_name(identity: str, reply_model: str) -> str:
    """Return the name in a reply; empty if it is exactly the requested name or the model's canonical text."""
    requested = identity.partition("[")[0]
    return "" if reply_model in (requested, requested.partition(":")[2]) else reply_model


def model_name(identity: str) -> str:
    """Return the model's name from its canonical text, without provider and parameters."""
    return parse(identity).name.partition(":")[2]
