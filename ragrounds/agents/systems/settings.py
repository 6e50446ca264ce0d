"""Settings of a user's system: in its agent's text, by ``--config`` and by ``--context``. Settings without effect are
rejected.

``./mine.py:graph[config.model=gpt-4o,context.depth=3,on_interrupt=yes]``
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ragrounds.agents.card import Card
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.base.text import typed_value
from ragrounds.recorder.redaction import redacted

TABLES = ("input", "config", "context")
"""Fields of a card that are tables: ``config.KEY`` in an agent's text."""
TEXTS = ("output", "choice", "on_interrupt", "model_field", "clock", "python")
SWITCHES = ("in_process", "share_process")
SETTINGS = (*(f"{table}.KEY" for table in TABLES), *TEXTS, *SWITCHES)
_SECRET = re.compile(r"(?:_|\.|^)(?:api_?key|token|secret|password)$", re.IGNORECASE)
_JSON = "json"
"""Name of a spec whose only parameter, ``text``, is the JSON of a value that the grammar cannot express: a list."""


def is_setting(key: str) -> bool:
    """Return True if a key of an agent's text is a setting of a user's system."""
    table, dot, rest = key.partition(".")
    return key in TEXTS or key in SWITCHES or (bool(dot) and bool(rest) and table in TABLES)


def with_setting(card: Card, key: str, value: Value) -> tuple[object, Card]:
    """Return the card's value of a key before, in the form of a text's value, and the card with the new value.

    Raises:
        UserError: the value looks like a key, or is not valid for a switch.
    """
    if key in SWITCHES:
        if not isinstance(value, bool):
            raise UserError(f"{key} must be true or false, not {str(value)!r}.")
        return getattr(card, key), replace(card, **{key: value})
    if key == "clock" and value not in ("", "real"):
        raise UserError(f"clock={value}: expected real, or nothing for a recorded clock.")
    if key in TEXTS:
        return getattr(card, key), replace(card, **{key: str(value).lower() if isinstance(value, bool) else str(value)})
    table, _, path = key.partition(".")
    if isinstance(value, str) and (redacted(value) != value or _SECRET.search(path.replace("-", "_"))):
        raise UserError(
            f"{key} looks like a key, and an agent's text is stored and shown. Put it into an environment variable, "
            "or where the system's own code reads it."
        )
    current: dict[str, object] = getattr(card, table)
    if table == "input":
        return current.get(path), replace(card, input={**card.input, path: str(value)})
    before = dict(flat(current)).get(path)
    return before, replace(card, **{table: _set(current, path.split("."), _plain(value))})


def short_path(path: str) -> str:
    """Return the path of an interpreter relative to the current folder, or to the home folder, if it is in one of
    them. However it was written, it has one name. The name of a program stays.
    """
    if "/" not in path:
        return path
    absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - links are not resolved
    for folder, prefix in ((os.getcwd(), "."), (os.path.expanduser("~"), "~")):  # noqa: PTH109, PTH111
        if absolute.startswith(f"{folder.rstrip('/')}/"):
            return f"{prefix}/{os.path.relpath(absolute, folder)}"
    return absolute


def _set(current: Mapping[str, object], path: Sequence[str], value: object) -> dict[str, object]:
    first, *rest = path
    inside = current.get(first)
    below = inside if isinstance(inside, Mapping) else {}
    return {**current, first: _set(below, rest, value) if rest else value}


def _plain(value: Value) -> object:
    if isinstance(value, Spec) and value.name == _JSON and isinstance(text := value.parameters.get("text"), str):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise UserError(f"{value}: {error}") from None
    return str(value) if isinstance(value, Spec) else value


def flat(table: Mapping[str, object]) -> Iterator[tuple[str, Value]]:
    """Yield the values of a table in the form of an agent's text: ``a.b`` for a nested one."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from ((f"{key}.{path}", inside) for path, inside in flat(value))
        elif isinstance(value, bool | int | float | str):
            yield key, value
        else:
            yield key, Spec(_JSON, {"text": msgspec.json.encode(value).decode()})


def read_table(raw: object, option: str) -> dict[str, object]:
    """Read a table of settings.

    Args:
        raw: a mapping; or texts, each ``KEY=VALUE`` (``a.b=…`` for a nested one; a value is JSON, or else a text).
        option: its option, for errors: ``--config``.

    Raises:
        UserError: a text has another form.
    """
    if isinstance(raw, Mapping):
        inside = raw.get("configurable")
        if not isinstance(inside, Mapping):
            return dict(raw)
        # A whole configuration of LangGraph's: its ``configurable``.
        limit = {"recursion_limit": raw["recursion_limit"]} if "recursion_limit" in raw else {}
        return {**{str(key): value for key, value in inside.items()}, **limit}
    table: dict[str, object] = {}
    for text in [raw] if isinstance(raw, str) else raw if isinstance(raw, Iterable) else [raw]:
        key, equals, value = str(text).partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r}: expected KEY=VALUE.")
        table = _set(table, key.strip().removeprefix("configurable.").split("."), typed_value(value))
    return table


def with_tables(text: str, config: Mapping[str, object], context: Mapping[str, object]) -> str:
    """Return an agent's text with settings that it does not contain itself."""
    spec = parse(text)
    settings = {f"config.{key}": value for key, value in flat(config)}
    settings |= {f"context.{key}": value for key, value in flat(context)}
    return str(Spec(spec.name, {**settings, **spec.parameters}))


def with_process(text: str, python: str, in_process: bool, share_process: bool) -> str:
    """Return an agent's text with the process of its system, unless the text itself sets it."""
    spec = parse(text)
    settings: dict[str, Value] = {"python": python} if python else {}
    settings |= {"in_process": True} if in_process else {}
    settings |= {"share_process": True} if share_process else {}
    return str(Spec(spec.name, {**settings, **spec.parameters}))


def with_model(text: str, card: Card, model: str) -> str:
    """Return an agent's text with a model set where its system takes one.

    Args:
        text: the agent's text.
        card: its card, whose `model_field` names the destination.
        model: ``provider:name``, as :func:`langchain.chat_models.init_chat_model` takes it.

    Raises:
        UserError: the destination has another form, or the model has parameters, which cannot be passed on.
    """
    destination = card.model_field
    table, _, key = destination.partition(".")
    table = {"configurable": "config"}.get(table, table)
    if table not in ("config", "context") or not key:
        suggestion = nearest(destination, ("config.model", "context.model"))
        raise UserError(f"{text}: model_field = {destination!r}: expected config.KEY or context.KEY.{suggestion}")
    model_spec = parse(model)
    if model_spec.parameters:
        raise UserError(f"{text} takes only a model's name in {destination}: {model} has parameters.")
    spec = parse(text)
    return str(Spec(spec.name, {f"{table}.{key}": model_spec.name, **spec.parameters}))


OPTIONS_OF_MODELS = ("model", "base_url", "alias", "temperature", "top_p", "max_answer_tokens")
"""Options of `run` for the models of agents: they have no effect on a system that brings its own model."""


def check_effects(spec: Spec, card: Card, is_accepted: Callable[[str], bool], accepted: Sequence[str]) -> None:
    """Reject settings without effect on a system that calls models and searches itself.

    Args:
        spec: the agent's text.
        card: its card.
        is_accepted: returns True for the key of a setting that has an effect.
        accepted: the names of such settings, for errors.

    Raises:
        UserError: the agent's text or file contains such a setting.
    """
    reason = f"{spec.name} uses its own models and search"
    for key in spec.parameters:
        if not is_accepted(key) and not key.startswith("limits."):
            raise UserError(
                f"{reason}: {key} has no effect. Settings: {', '.join([*accepted, 'limits.calls'])}, limits.tokens, "
                "limits.cost, limits.seconds."
            )
    for field, field_value in (
        ("models", card.models),
        ("corpus", card.corpus),
        ("searches", card.searches),
        ("tools", card.tools),
    ):
        if field_value:
            how = " Set model_field to pass --model on." if field == "models" else ""
            raise UserError(f"{reason}: {field} of its file has no effect.{how}")
