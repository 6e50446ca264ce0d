"""``blocks.toml``: what cannot run and why, what is volatile, what stands in for what."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from blocks.outputs import Volatile

TABLE = Path(__file__).with_name("blocks.toml")


@dataclass(frozen=True)
class Special:
    """A command that is not simply run."""

    page: str
    """A page, with ``*`` for any text."""
    command: str
    """How it begins."""
    unless: str = ""
    """Not where it holds this."""
    reason: str = ""
    says: str = ""
    """A server's line that says that it listens."""
    adds: str = ""
    """What is added to a server's command."""
    code: int = 0
    """The exit code of an example that stands in no page."""
    keys: str = "q"
    """What is typed to leave a screen."""

    def meets(self, page: str, command: str) -> bool:
        """Whether it is about this command."""
        text = " ".join(command.split())
        if self.unless and re.search(self.unless, text):
            return False
        return fnmatchcase(page, self.page) and text.startswith(self.command)


@dataclass(frozen=True)
class Rules:
    """All tables of the file."""

    not_run: tuple[Special, ...] = ()
    screens: tuple[Special, ...] = ()
    served: tuple[Special, ...] = ()
    ends: tuple[Special, ...] = ()
    volatile: tuple[Volatile, ...] = ()
    stands_in: tuple[Volatile, ...] = ()
    """What is replaced in commands and files before they are run."""
    in_repository: tuple[str, ...] = ()
    """Pages whose folder is a copy of the repository."""
    asks_models: tuple[str, ...] = ()
    """Pages whose own files ask a model of a provider."""
    complete: tuple[str, ...] = ()
    """Pages that begin in an empty folder and have no hidden setup."""
    setup: dict[str, str] = field(default_factory=dict)
    """Page of help texts or docstrings → commands that are run before it."""
    model_server: dict[str, str] = field(default_factory=dict)
    """Page → module of the model server that it needs, in place of the stand-in."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Page → seconds that one of its commands may take."""

    def is_complete(self, page: str) -> bool:
        """Whether the page is to work from an empty folder."""
        return any(fnmatchcase(page, one) for one in self.complete)

    def is_in_repository(self, page: str) -> bool:
        """Whether its commands are typed in the repository."""
        return any(fnmatchcase(page, one) for one in self.in_repository)


def read_rules(path: Path = TABLE) -> Rules:
    """Read the file."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))

    def exceptions(name: str) -> tuple[Special, ...]:
        return tuple(Special(**one) for one in read.get(name, ()))

    def replaced(name: str) -> tuple[Volatile, ...]:
        return tuple(
            Volatile(re.compile(one["pattern"], re.MULTILINE), one["becomes"], one["why"]) for one in read.get(name, ())
        )

    return Rules(
        not_run=exceptions("not_run"),
        screens=exceptions("screen"),
        served=exceptions("served"),
        ends=exceptions("ends"),
        volatile=replaced("volatile"),
        stands_in=replaced("stand_in"),
        in_repository=tuple(read.get("in_repository", ())),
        asks_models=tuple(read.get("asks_models", ())),
        complete=tuple(read.get("complete", ())),
        setup={
            page: "".join(read["setups"][name] for name in names.split())
            for page, names in read.get("setup", {}).items()
        },
        model_server=read.get("model_server", {}),
        seconds=read.get("seconds", {}),
    )
