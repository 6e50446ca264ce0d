"""Frames that a host sends (:mod:`ragrounds.recorder.host`), checked, because a host may be hostile."""

from __future__ import annotations

import contextlib
import inspect
import typing
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.reads import ReportedDependencies
from ragrounds.base.errors import SystemFailed, UserError
from ragrounds.base.http import read_json
from ragrounds.base.text import safe
from ragrounds.recorder.errors import AskedPerson
from ragrounds.recorder.frames import BadFrame, RawFrame
from ragrounds.recorder.observer import Observer
from ragrounds.recorder.redaction import redacted
from ragrounds.recorder.wire import Unsent


class Said(Struct, tag_field="frame", tag=str.lower, frozen=True):
    """Header of a frame."""


class SystemOpened(Said, tag="opened", frozen=True):
    """A system was loaded."""

    attempt: int
    kind: str
    """Form of the system. Empty if it has imported ragrounds, and must be opened in ragrounds' process."""
    sealed: bool = False
    """True if the kernel refuses all traffic of its process."""
    python: str = ""
    """Version of its process's Python: ``3.12``."""


class Exchange(Said, frozen=True):
    """A request that needs a verdict."""

    n: int
    attempt: int
    method: str
    url: str
    headers: dict[str, str]
    step: str
    model_call: str
    waits: bool


class Sent(Said, frozen=True):
    """Response of a request's server, or failure of the client."""

    n: int
    status: int = 0
    content_type: str = ""
    headers: dict[str, str] = {}
    error: str = ""
    fault: str = ""


class Gone(Said, frozen=True):
    """The caller of a request was cancelled."""

    n: int


class Tell(Said, frozen=True):
    """An event. `at` is its time by the monotonic clock of this machine."""

    attempt: int
    what: str
    args: list[Any]
    named: dict[str, Any]
    step: str
    model_call: str
    at: float


class SystemAnswered(Said, tag="answered", frozen=True):
    """Answer of a system."""

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
        """Return the exception to raise on this side."""
        return AskedPerson(self.value)


class SystemRaised(Said, tag="failed", frozen=True):
    """A system raised an exception, or cannot be opened. For attempt 0, the host itself cannot start."""

    attempt: int
    text: str
    type: str = ""
    module: str = ""
    trace: str = ""
    refused: bool = False
    unsent: bool = False
    """True if the cause is a refused call."""

    @property
    def error(self) -> BaseException:
        """Return the exception to raise on this side. Its class has the same name."""
        text = redacted(self.text)
        if self.unsent:
            return Unsent(text)
        if self.refused:
            return UserError(text)
        if self.type == "GraphRecursionError":  # a cap, not a failure
            from langgraph.errors import GraphRecursionError

            return GraphRecursionError(text)
        kind = type(safe(self.type, 200), (SystemFailed,), {"__module__": safe(self.module, 200)})
        error: SystemFailed = kind(text)
        error.trace = self.trace
        return error


AnySaid = Sent | Gone | Exchange | Tell | SystemOpened | SystemAnswered | PersonAsked | SystemRaised
_DECODER = msgspec.json.Decoder(AnySaid)


def read_frame(frame: RawFrame) -> AnySaid:
    """Parse a frame.

    Raises:
        BadFrame: it is not a valid frame of a host.
    """
    try:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            decoded: AnySaid = _DECODER.decode(frame.header)
            return decoded
        # Fallback for JSON that only the standard library accepts. Its error message is more detailed.
        converted: AnySaid = msgspec.convert(read_json(frame.header), AnySaid)
        return converted
    except ValueError as error:
        raise BadFrame(str(error)) from error


def _events() -> dict[str, type[Struct]]:
    """Return the allowed events with their arguments.

    These are the methods of an observer, the watcher's own, recorded randomness, and read dependencies.
    """
    events = {
        "unseen": msgspec.defstruct("unseen", [("label", str), ("counted", bool, False)]),
        "value": msgspec.defstruct("value", [("site", str), ("value", str)]),
        "read": msgspec.defstruct("read", [("reported", ReportedDependencies)]),
    }
    for event_name, method in vars(Observer).items():
        if inspect.isfunction(method) and not event_name.startswith("_") and event_name not in events:
            types = typing.get_type_hints(method)
            fields = [
                (name, types[name], *([] if parameter.default is parameter.empty else [parameter.default]))
                for name, parameter in [*inspect.signature(method).parameters.items()][1:]
            ]
            # Fields without defaults come first.
            events[event_name] = msgspec.defstruct(event_name, sorted(fields, key=len))
    return events


_EVENTS = _events()


def event(message: Tell) -> dict[str, Any]:
    """Return the arguments of an event by name.

    Raises:
        BadFrame: the event does not exist, or its arguments do not fit.
    """
    kind = _EVENTS.get(message.what)
    if kind is None:
        raise BadFrame(f"there is no event {safe(message.what, 60)!r}")
    names = kind.__struct_fields__
    try:
        values = msgspec.convert({**dict(zip(names, message.args, strict=False)), **message.named}, kind)
    except msgspec.ValidationError as error:
        raise BadFrame(f"{message.what}: {error}") from error
    return {name: getattr(values, name) for name in names}
