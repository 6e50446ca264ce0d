"""What several commands share: settings, the store, JSON on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragrounds.evals.store.store import Store
    from ragrounds.settings import Settings


def settings() -> Settings:
    """The user's settings."""
    from ragrounds.settings import read_settings

    return read_settings()


def open_store(chosen: Settings) -> Store:
    """The store of these settings."""
    from ragrounds.evals.store.store import Store

    return Store(chosen.home, chosen.store)


def print_json(value: Any) -> None:
    """One JSON document on stdout, records as objects."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def say(text: str) -> None:
    """Talk goes to stderr; stdout is for results."""
    import typer

    typer.echo(text, err=True)


def one_of(option: str, text: str, known: Sequence[str]) -> str:
    """`text`, where it is among `known`.

    Raises:
        UserError: it is not; names the nearest and all that are known.
    """
    from ragrounds.errors import UserError, nearest

    if text not in known:
        raise UserError(f"{option} {text!r} is unknown.{nearest(text, known)} Known: {', '.join(known)}.")
    return text
