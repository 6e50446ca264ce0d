"""Model cards: how a model that is reached through the completions API is spoken to."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec
from msgspec import Struct

from ragrounds.errors import unknown
from ragrounds.records import Message

NONE = "none"


class ModelCard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A template, its stop strings, and the window."""

    summary: str
    source: str
    system: str
    user: str
    assistant: str
    opening: str
    """What begins the assistant's turn."""
    names: tuple[str, ...] = ()
    """Parts of a model's name, in lower case, that choose this card."""
    stops: tuple[str, ...] = ()
    window: int | None = None
    demonstration: tuple[str, str] | None = None
    """A user's turn and the assistant's, shown before the real ones."""

    def written(self, messages: Sequence[Message], prefix: str = "") -> str:
        """The conversation as one text, up to where the model goes on. Nothing in a turn's text is interpreted."""
        system = [message for message in messages if message.role == "system"]
        others = [message for message in messages if message.role != "system"]
        if self.demonstration:
            shown = (Message("user", self.demonstration[0]), Message("assistant", self.demonstration[1]))
            others = [*shown, *others]
        frames = {"system": self.system, "user": self.user, "assistant": self.assistant, "tool": self.user}
        turns = (frames[message.role].replace("$text", message.content) for message in (*system, *others))
        return "".join(turns) + self.opening + prefix


@functools.cache
def cards() -> Mapping[str, ModelCard]:
    """All cards by name."""
    text = files("ragrounds.models").joinpath("cards.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, ModelCard])


@functools.lru_cache(maxsize=256)
def card_name(model: str, chosen: str | None = None) -> str | None:
    """The name of a model's card; ``None``: it has none, it is spoken to by chat turns.

    Raises:
        UserError: `chosen` names no card.
    """
    if chosen == NONE:
        return None
    if chosen is not None:
        if chosen not in cards():
            raise unknown("model card", chosen, [*cards(), NONE], "docs/strategies.md")
        return chosen
    return next((name for name, card in cards().items() if any(part in model.lower() for part in card.names)), None)
