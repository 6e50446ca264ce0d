"""The model that a reply names, beside the one that was asked.

Both name the same model where, upper and lower case aside,

* they are equal, or one has a router's or an owner's prefix and the other none (``openai/gpt-4o``, ``gpt-4o``);
* the reply adds a date or the number of a release (``gpt-4o-2024-08-06``, ``gpt-4-0613``, ``gemini-2.0-flash-001``,
  ``claude-3-5-sonnet@20240620``), or Ollama's ``:latest``; a name that ends with ``-latest`` may have these in its
  place;
* what was asked adds a way of routing, as OpenRouter has them (``…:free``);
* the server itself lists the reply's name with the model (vLLM's path or LoRA base, llama.cpp's file);
* the reply gives the model's canonical text, as the built-in baseline does (``baseline:extractive``).

A date taken off is another name: what stands behind it may have changed. Several names for one asked model are told in
any case: it changed while the run went on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ragrounds.base.specs import parse

_RELEASE = r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})|:latest)"
_ROUTES = re.compile(r":(?:free|nitro|floor|online|extended|thinking|beta|exacto)$")
SERVED = ("id", "root", "parent", "model_path", "model_id", "canonical_slug", "hugging_face_id")
"""What a server tells of a model that may be its name."""


def same_model(asked: str, told: str, served: Collection[str] = ()) -> bool:
    """Whether a reply's model is the one that was asked; `served` are names that the server gives it."""
    wanted, given = _plain(asked), _plain(told)
    if given in {_plain(name) for name in served}:
        return True
    wanted = _ROUTES.sub("", wanted)
    if "/" not in wanted or "/" not in given:
        wanted, given = (name.rpartition("/")[2] for name in (wanted, given))
    bases = {wanted, wanted.removesuffix("-latest")}
    return given in bases or any(re.fullmatch(re.escape(base) + _RELEASE, given) for base in bases)


def answered_otherwise(asked: str, told: Mapping[str, int], served: Collection[str] = ()) -> str:
    """What is to be said where other models have answered, or several: ``answered by X in 12 of 200 calls, asked Y``.
    Empty: nothing.

    Args:
        asked: the model's name.
        told: the name in replies → in how many.
        served: names that the server gives the model.
    """
    others = {name: count for name, count in told.items() if not same_model(asked, name, served)}
    names = {_plain(name).rpartition("/")[2] for name in told}
    shown = told if not others and len(names) > 1 else others
    if not shown:
        return ""
    counted = [f"{name} in {count:,}" for name, count in sorted(shown.items(), key=lambda one: (-one[1], one[0]))]
    return f"answered by {' and '.join(counted)} of {sum(told.values()):,} calls, asked {asked}"


def other_models(named: Mapping[str, Mapping[str, int]], served: Mapping[str, Collection[str]] = {}) -> list[str]:
    """What is to be said of several models.

    Args:
        named: the model asked, as its canonical text → the name in replies → in how many.
        served: the model asked → names that its server gives it.
    """
    said = [
        answered_otherwise(model_name(asked), names, (*served.get(asked, ()), parse(asked).name))
        for asked, names in sorted(named.items())
    ]
    return [text for text in said if text]


def other_name(identity: str, told: str) -> str:
    """The name in a reply, where it is not to the letter the one that was asked or the model's canonical text; else
    empty."""
    asked = identity.partition("[")[0]
    return "" if told in (asked, asked.partition(":")[2]) else told


def model_name(identity: str) -> str:
    """The model's name in its canonical text, without provider and parameters."""
    return parse(identity).name.partition(":")[2]


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
