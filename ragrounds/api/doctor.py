"""What works here: places, extras, what installed packages add, and what a model's server can do."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.text import Text
from sqlalchemy.exc import DatabaseError

from ragrounds.api.event_loop import finish
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.servers import server_defaults
from ragrounds.api.workspace import Progress, chosen_settings, open_store
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import declared, extension_points
from ragrounds.base.settings import Settings, settings_file
from ragrounds.evals.judges.rescoring import check_scores
from ragrounds.evals.store.care.salvage import SavedStore, save_store
from ragrounds.evals.store.care.verification import Finding, Findings, Verification
from ragrounds.evals.store.database import SAVE
from ragrounds.evals.store.store import Store
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import ServerCapabilities, probe
from ragrounds.ui.text import number_of, safe
from ragrounds.version import __version__

_OURS = ("mutation", "test")
"""Extras for those who work at this package."""


class Addition(Struct, frozen=True, kw_only=True):
    """Something that an installed package adds by an entry point."""

    kind: str
    """``scorer``, ``agent``, ``benchmark``, ``retriever``, ``analysis``, ``export format``; empty: no such group."""
    name: str
    """What users type."""
    package: str
    version: str
    group: str
    """The group of entry points: ``ragrounds.scorers``."""
    value: str
    """``package.module:NAME``."""
    fault: str = ""
    """Why it cannot be used; empty: it can."""


class StoreCheck(Struct, frozen=True, kw_only=True):
    """What :func:`doctor` found in a store."""

    checked: dict[str, int]
    """What was looked at → how many."""
    found: dict[str, int]
    """``damage: KIND`` or ``note: KIND`` → how many."""
    findings: tuple[Finding, ...]
    """The first of every kind, damage before notes."""

    @property
    def damaged(self) -> int:
        """How many things are damaged or missing."""
        return sum(count for kind, count in self.found.items() if kind.startswith("damage: "))

    def lines(self) -> Iterator[str]:
        """What was looked at and found, in words."""
        looked = ", ".join(f"{count:,} {what}" for what, count in self.checked.items() if count) or "nothing"
        yield f"{'checked':10} {looked}"
        for finding in self.findings:
            yield f"  {finding.grade}: {finding.kind}, {finding.place}: {finding.what}"
        for kind, count in self.found.items():
            shown = sum(f"{one.grade}: {one.kind}" == kind for one in self.findings)
            if count > shown:
                yield f"  {kind}: {count - shown:,} more"
        notes = sum(self.found.values()) - self.damaged
        yield f"{'damage':10} {self.damaged:,} found; {notes:,} notes"
        if self.damaged:
            yield f"  {SAVE}"


class Diagnosis(Result, frozen=True, kw_only=True):
    """What :func:`doctor` found."""

    ragrounds: str
    """The version."""
    python: str
    home: str
    settings: str
    """The settings file, and whether it is there."""
    store: str
    """Where runs are kept, and how many."""
    extras: dict[str, bool]
    """Extra of this package → whether it is installed."""
    additions: tuple[Addition, ...]
    """What installed packages add, by kind and name."""
    model: ServerCapabilities | None = None
    """``None``: no model was named."""
    contents: StoreCheck | None = None
    """``None``: the store was not looked through."""
    saved: SavedStore | None = None
    """What was saved of a damaged store; `store` and `contents` are the new one's. ``None``: nothing was to be."""

    @property
    def verdict(self) -> str:
        """What is wrong, in a sentence; and what was not looked at."""
        broken = sum(bool(one.fault) for one in self.additions)
        wrong = (
            [f"{broken:,} of {len(self.additions):,} additions of installed packages cannot be used"] if broken else []
        )
        if self.contents is not None and self.contents.damaged:
            wrong.append(f"the store has {self.contents.damaged:,} damaged or missing parts")
        unseen = [] if self.contents is not None else ["what the store holds (--store)"]
        unseen += [] if self.model is not None else ["a model's server (--model)"]
        found = f"Wrong: {'; '.join(wrong)}." if wrong else "No problem was found."
        return f"{found} Not checked: {'; '.join(unseen)}." if unseen else found

    def lines(self) -> Iterator[str]:
        """What is wrong, what the named model's server can do, then all else that was found, in words."""
        yield self.verdict
        yield from _server(self.model)  # what was asked for stands first
        for name in ("ragrounds", "python", "home", "settings", "store"):
            yield f"{name:10} {getattr(self, name)}"
        here = ", ".join(name for name, there in self.extras.items() if there) or "none"
        missing = ", ".join(name for name, there in self.extras.items() if not there) or "none"
        yield f"{'extras':10} installed: {here}; not installed: {missing} (pip install 'ragrounds[NAME]')"
        yield from _added(self.additions)
        if self.saved is not None:
            yield from self.saved.lines()
        if self.contents is not None:
            yield from self.contents.lines()

    def draw(self, console: Console) -> None:
        """Print all that was found, as the command does."""
        for line in self.lines():
            console.print(Text(safe(line)), soft_wrap=True)


def _added(additions: tuple[Addition, ...]) -> Iterator[str]:
    broken = sum(bool(one.fault) for one in additions)
    yield f"{'additions':10} {len(additions)} from installed packages" + (f", {broken} broken" if broken else "")
    for one in additions:
        source = f"{one.package} {one.version}".strip()
        yield f"  {one.kind or one.group:13} {one.name}, from {source} ({one.value})"
        if one.fault:
            yield f"    broken: {one.fault}"


_CAPABILITIES = {
    "stops": "stop strings end the text",
    "names_stop": "says which stop string it was",
    "keeps_stop": "leaves the stop string in the text",
    "tools": "takes tools",
    "chooses": "calls the tool that is required",
    "forms": "follows a JSON schema in replies",
    "logprobs": "gives log probabilities",
}


def _server(probed: ServerCapabilities | None) -> Iterator[str]:
    if probed is None:
        return
    answers = {True: "yes", False: "no", None: "unknown"}
    yield f"{'model':10} {probed.spec}"
    yield f"  continues its own text by: {probed.continues} ({probed.why})"
    for name, words in _CAPABILITIES.items():
        yield f"  {words}: {answers[getattr(probed, name)]}"
    yield f"  its reply names the model: {probed.answered_by or 'no'}"
    if probed.told:
        yield f"  reports of the model: {', '.join(f'{name} {value}' for name, value in probed.told.items())}"


def doctor(
    model: str | None = None,
    base_url: str | None = None,
    alias: str | None = None,
    *,
    store: bool = False,
    save: str | Path | None = None,
    progress: Progress | bool | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Diagnosis:
    """Say where things live, which extras are here, what was added from outside, what a model's server can do, and
    whether everything in the store is what was written.

        rr.doctor(store=True).contents.damaged

    Every installed package that adds something is imported. With a model, its server is asked a few questions of some
    twenty tokens each. The store is only read: each row is decoded and checked against its check sum, what it refers to
    must be there, and stored answers are scored again by the scorers that ask no model.

    Args:
        model: ``provider:model``.
        base_url, alias: of its server, where it is OpenAI-compatible, and a name for several; by default the settings'.
        store: look through the whole store, which takes some ten seconds for 100,000 short attempts.
        save: a new folder: all that can be read of the store's file, damaged as it may be, is saved into a store there,
            and that one is looked through.
        progress: gets what is looked at and how many are done; False: nothing is shown.
        home, settings: the folder of runs and journal, and all settings; ``None``: the user's.

    Raises:
        UserError: the model's text is wrong, or the store cannot be opened.
        StopRun: the server cannot be reached, refuses the key or does not know the model.
    """
    chosen = chosen_settings(settings, home)
    if store and chosen.store is None and not chosen.home.is_dir():
        raise UserError(f"There is no store to check: the folder {str(chosen.home)!r} does not exist.")
    saved = None
    if save is not None:
        saved = _save(chosen, Path(save), progress)
        chosen = chosen_settings(chosen, save)
    with open_store(chosen) as opened:
        contents = _look_through(opened, progress) if store or saved else None
        place = opened.place
        try:
            runs = number_of(opened.count_runs(), "run")
        except DatabaseError:
            runs = "whose runs cannot be read"
    probed = None
    if model is not None:
        text = with_defaults(model, {**server_defaults(base_url, alias, chosen), "timeout": 60.0})
        probed = finish(probe(text))
    return Diagnosis(
        ragrounds=__version__,
        python=platform.python_version(),
        home=str(chosen.home),
        settings=str(settings_file()) + ("" if settings_file().is_file() else " (not there: defaults)"),
        store=f"{place}, {runs}",
        extras=_extras(),
        additions=tuple(additions()),
        model=probed,
        contents=contents,
        saved=saved,
    )


def _extras() -> dict[str, bool]:
    """Extra of this package → whether all that it brings is installed."""
    found: dict[str, bool] = {}
    here = {re.sub(r"[-_.]+", "-", one.name).lower() for one in metadata.distributions()}
    with suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("ragrounds") or ():
            if extra := re.search(r"extra == ['\"]([\w-]+)", line):
                wanted = re.split(r"[^\w.-]", line, maxsplit=1)[0]
                found[extra[1]] = found.get(extra[1], True) and re.sub(r"[-_.]+", "-", wanted).lower() in here
    return {name: found[name] for name in sorted(found) if name not in _OURS}


def _save(settings: Settings, folder: Path, progress: Progress | bool | None) -> SavedStore:
    if settings.store is not None:
        raise UserError(
            "--save is for a store in a file. Save a store on a server with the server's own tools: pg_dump."
        )
    with counted(progress) as tell:
        return save_store(settings.home / "store.sqlite", folder, settings.home, tell)


def _look_through(store: Store, progress: Progress | bool | None) -> StoreCheck:
    findings = Findings()
    with counted(progress) as tell:
        walk = Verification(store.engine, findings, tell)
        walk.walk()
        if not walk.unreadable:
            for run in walk.runs.values():
                check_scores(store, run, findings, tell)
    return StoreCheck(
        checked=dict(findings.checked),
        found={f"{grade}: {kind}": count for (grade, kind), count in sorted(findings.found.items())},
        findings=tuple(sorted(findings.kept, key=lambda one: (one.grade, one.kind))),
    )


def additions() -> list[Addition]:
    """What installed packages add, by kind and name, with what is wrong with it. All of them are imported."""
    points = extension_points()
    found = [(point.hook.noun, each) for point in points.values() for each in point.additions()]
    for each in declared("ragrounds."):
        if each.group not in points:
            hint = nearest(each.group, points) or f" Groups: {', '.join(points)}."
            found.append(("", each._replace(fault=f"there is no such group.{hint}")))
    return [Addition(kind=kind, **each._asdict()) for kind, each in found]
