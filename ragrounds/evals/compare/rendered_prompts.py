"""Which prompts a run's recorded calls really sent: of those that its graph may render, the ones whose fixed words
stand in a request. A run keeps the digests of all that its graph may render; methods list what was used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls, traced_calls
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Call, Run
from ragrounds.specs import parse

_BATCH = 400
"""Calls whose requests are read together."""
_PLACE = re.compile(r"\$(?:(?P<dollar>\$)|\{?[_a-zA-Z]\w*\}?)")
_TURN = re.compile(r"^\[(?:system|user|assistant)\][ \t]*\n", re.MULTILINE)
_HEADING = re.compile(r"^(?=### )", re.MULTILINE)
_OPTIONAL = re.compile(r"### (?:known|options)\b", re.IGNORECASE)
"""Parts that a layout, or an empty value, leaves out."""
_LANGUAGES = ("en", "zh")


class RenderedPrompts(Struct, frozen=True, kw_only=True):
    """What is known of the prompts of a run."""

    used: dict[str, str]
    """Name → digest of those that its recorded calls sent."""
    unknown: dict[str, str]
    """Name → digest of those whose text is not here as the run had it, so that nobody can tell."""


class _Wording(Struct, frozen=True):
    """The fixed words of one form of a prompt."""

    name: str
    parts: tuple[str, ...]

    def stands_in(self, text: str) -> bool:
        """Whether all its fixed words are there."""
        return all(part in text for part in self.parts)

    def within(self, other: _Wording) -> bool:
        """Whether whatever holds the other holds this too."""
        return self.name != other.name and all(any(part in whole for whole in other.parts) for part in self.parts)


def rendered_prompts(store: Store, run: Run) -> RenderedPrompts:
    """Find the prompts that a run sent. All its recorded requests are read, until each prompt has been seen."""
    listed = dict(_listed(run.identity))
    wordings, unknown = _wordings(run, listed)
    wanted = {one.name for one in wordings}
    used: set[str] = set()
    if wanted:
        for request in _requests(store, run):
            used |= _sent(request, wordings, used)
            if used >= wanted:
                break
    return RenderedPrompts(
        used={name: listed[name] for name in listed if name in used},
        unknown={name: listed[name] for name in listed if name in unknown},
    )


def _listed(identity: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Name → digest of all prompts that the graph, and an agent inside it, may render."""
    for part in (identity, identity.get("inner")):
        prompts = part.get("prompts") if isinstance(part, Mapping) else None
        if isinstance(prompts, Mapping):
            yield from ((str(name), str(digest)) for name, digest in prompts.items())


def _wordings(run: Run, listed: Mapping[str, str]) -> tuple[list[_Wording], set[str]]:
    found: list[_Wording] = []
    unknown: set[str] = set()
    folders = list(_folders(run))
    for name, digest in listed.items():
        folder = next((one for one in folders if _digest(one, name) == digest), None)
        if folder is None:
            unknown.add(name)
            continue
        forms = dict.fromkeys(folder.source(name, language) for language in _LANGUAGES)
        found += [_Wording(name, parts) for text in forms if (parts := _parts(text))]
    return found, unknown


def _folders(run: Run) -> Iterator[PromptFolder]:
    """Where the prompts of a run may stand: the folder that its agent names, and the package."""
    try:
        own = parse(run.agent).parameters.get("prompts")
        if isinstance(own, str):
            yield PromptFolder(own)
    except UserError:  # no agent's text, or a folder that is not here
        pass
    yield PromptFolder()


def _digest(folder: PromptFolder, name: str) -> str:
    try:
        return folder.digest((name,))[name]
    except UserError:
        return ""


def _parts(text: str) -> tuple[str, ...]:
    """The fixed words between the places of a prompt, without the parts that may be left out."""
    kept = [part for turn in _TURN.split(text) for part in _HEADING.split(turn) if part and not _OPTIONAL.match(part)]
    fixed = [piece.strip() for part in kept for piece in _between(part)]
    return tuple(dict.fromkeys(piece for piece in fixed if piece))


def _between(part: str) -> list[str]:
    pieces, start = [""], 0
    for place in _PLACE.finditer(part):
        pieces[-1] += part[start : place.start()]
        start = place.end()
        if place["dollar"]:
            pieces[-1] += "$"
        else:
            pieces.append("")
    pieces[-1] += part[start:]
    return pieces


def _sent(request: Request, wordings: Iterable[_Wording], known: set[str]) -> set[str]:
    """The prompts that stand in a request; one whose words all stand in another's that is there too is not counted."""
    text = "\n".join([*(message.content for message in request.messages), request.prefix or ""])
    here = [one for one in wordings if one.stands_in(text)]
    return {one.name for one in here if one.name in known or not any(one.within(other) for other in here)}


def _requests(store: Store, run: Run) -> Iterator[Request]:
    batch: list[Call] = []
    for attempt in store.attempts(run, skip_damaged=True):
        batch += [call for call in calls(attempt.events) if call.kind == "model" and call.key]
        if len(batch) >= _BATCH:
            yield from _read(store, batch)
            batch = []
    yield from _read(store, batch)


def _read(store: Store, batch: list[Call]) -> Iterator[Request]:
    for traced in traced_calls(store, batch) if batch else ():
        if traced.asked is not None:
            yield traced.asked
