"""What a host sends (:mod:`ragrounds.recorder.host`), checked: a host may be hostile."""

from __future__ import annotations

import contextlib
import inspect
import typing
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.reads import ToldReads
from ragrounds.base.errors import SystemFailed, UserError
from ragrounds.base.http import read_json
from ragrounds.base.text import safe
from ragrounds.recorder.errors import AskedPerson
from ragrounds.recorder.frames import BadFrame, RawFrame
from ragrounds.recorder.observer import Observer
from ragrounds.recorder.wire import Unsent


class Said(Struct, tag_field="frame", tag=str.lower, frozen=True):
    """The header of a frame."""


class SystemOpened(Said, tag="opened", frozen=True):
    """A system is open."""

    attempt: int
    kind: str
    """Empty: it has imported ragrounds, and has to be opened in our process."""
    sealed: bool = False
    """The kernel lets nothing leave its process."""


class Exchange(Said, frozen=True):
    """A request: may it be sent?"""

    n: int
    attempt: int
    method: str
    url: str
    headers: dict[str, str]
    step: str
    model_call: str
    waits: bool


class Sent(Said, frozen=True):
    """What the server of a request answered, or how the client failed."""

    n: int
    status: int = 0
    content_type: str = ""
    headers: dict[str, str] = {}
    error: str = ""
    fault: str = ""


class Gone(Said, frozen=True):
    """Nobody waits for the answer to a request any more."""

    n: int


class Tell(Said, frozen=True):
    """An event; `at`: the time of it, by the monotonic clock of this machine."""

    attempt: int
    what: str
    args: list[Any]
    named: dict[str, Any]
    step: str
    model_call: str
    at: float


class SystemAnswered(Said, tag="answered", frozen=True):
    """What a system answered."""

    attempt: int
    text: str
    choice: str
    passages: list[dict[str, object]]


class PersonAsked(Said, tag="asked", frozen=True):
    """A system asked a person."""

    attempt: int
    value: str

    @property
    def error(self) -> BaseException:
        """What is raised here."""
        return AskedPerson(self.value)


class SystemRaised(Said, tag="failed", frozen=True):
    """A system raised something, or cannot be opened; of number 0, the host itself cannot begin."""

    attempt: int
    text: str
    type: str = ""
    module: str = ""
    trace: str = ""
    refused: bool = False
    unsent: bool = False
    """Because a call was refused."""

    @property
    def error(self) -> BaseException:
        """What is raised here: an exception whose class has the same name."""
        if self.unsent:
            return Unsent(self.text)
        if self.refused:
            return UserError(self.text)
        if self.type == "GraphRecursionError":  # a cap, and no failure
            from langgraph.errors import GraphRecursionError

            return GraphRecursionError(self.text)
        kind = type(safe(self.type, 200), (SystemFailed,), {"__module__": safe(self.module, 200)})
        error: SystemFailed = kind(self.text)
        error.trace = self.trace
        return error


AnySaid = Sent | Gone | Exchange | Tell | SystemOpened | SystemAnswered | PersonAsked | SystemRaised
_DECODER = msgspec.json.Decoder(AnySaid)


def read_frame(frame: RawFrame) -> AnySaid:
    """What a frame says.

    Raises:
        BadFrame: nothing that a host may say.
    """
    try:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return typing.cast("AnySaid", _DECODER.decode(frame.header))
        # What only the standard library reads, and says more of what does not fit.
        return typing.cast("AnySaid", msgspec.convert(read_json(frame.header), AnySaid))
    except ValueError as error:
        raise BadFrame(str(error)) from error


def _events() -> dict[str, type[Struct]]:
    """The events that may be told, and what each is told with: the methods of an observer, the watcher's own, and
    what is drawn from clock and chance, and what is read."""
    found = {
        "unseen": msgspec.defstruct("unseen", [("what", str), ("counted", bool, False)]),
        "value": msgspec.defstruct("value", [("place", str), ("value", str)]),
        "read": msgspec.defstruct("read", [("told", ToldReads)]),
    }
    for name, method in vars(Observer).items():
        if inspect.isfunction(method) and not name.startswith("_") and name not in found:
            types = typing.get_type_hints(method)
            takes = list(inspect.signature(method).parameters.values())[1:]
            needed = [(one.name, types[one.name]) for one in takes if one.default is one.empty]
            other = [(one.name, types[one.name], one.default) for one in takes if one.default is not one.empty]
            found[name] = msgspec.defstruct(name, [*needed, *other])
    return found


_EVENTS = _events()


def event(told: Tell) -> dict[str, Any]:
    """What an event is told with, by name.

    Raises:
        BadFrame: there is no such event, or it is told with something else.
    """
    kind = _EVENTS.get(told.what)
    if kind is None:
        raise BadFrame(f"there is no event {safe(told.what, 60)!r}")
    names = kind.__struct_fields__
    try:
        values = msgspec.convert({**dict(zip(names, told.args, strict=False)), **told.named}, kind)
    except msgspec.ValidationError as error:
        raise BadFrame(f"{told.what}: {error}") from error
    return {name: getattr(values, name) for name in names}
