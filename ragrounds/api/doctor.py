"""Check of the installation: paths, extras, additions of installed packages, and the abilities of a model's server."""

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

from ragrounds.api.concurrency_check import ConcurrencyCheck, check_concurrency
from ragrounds.api.event_loop import finish
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.servers import server_defaults
from ragrounds.api.workspace import Progress, chosen_settings, open_store
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import declared, extension_points
from ragrounds.base.settings import Settings, settings_file
from ragrounds.evals.judges.rescoring import check_scores
from ragrounds.evals.store.care.key_search import KEY
from ragrounds.evals.store.care.salvage import SavedStore, save_store
from ragrounds.evals.store.care.verification import Finding, Findings, Verification
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.database import SAVE
from ragrounds.evals.store.store import Store
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import ServerCapabilities, probe
from ragrounds.ui.text import number_of, safe
from ragrounds.version import __version__

_DEVELOPER_EXTRAS = ("mutation", "test")
"""Extras for developers of this package."""


class Addition(Struct, frozen=True, kw_only=True):
    """Addition of an installed package by an entry point."""

    kind: str
    """Kind: ``scorer``, ``agent``, ``benchmark``, ``retriever``, ``analysis``, ``export format``; empty if the group is
    unknown.
    """
    name: str
    """Name that users type."""
    package: str
    version: str
    group: str
    """Group of entry points: ``ragrounds.scorers``."""
    value: str
    """Import path: ``package.module:NAME``."""
    fault: str = ""
    """Reason why it cannot be used; empty if it can."""


class StoreCheck(Struct, frozen=True, kw_only=True):
    """Result of :func:`doctor` on a store."""

    checked: dict[str, int]
    """Numbers of checked things by their kind."""
    found: dict[str, int]
    """Numbers of findings by ``damage: KIND`` or ``note: KIND``."""
    findings: tuple[Finding, ...]
    """First findings of every kind, damage before notes."""

    @property
    def damaged(self) -> int:
        """Return the number of damaged or missing things."""
        return sum(count for kind, count in self.found.items() if kind.startswith("damage: "))

    def lines(self) -> Iterator[str]:
        """Yield the checks and findings in words."""
        looked = ", ".join(f"{count:,} {noun}" for noun, count in self.checked.items() if count) or "nothing"
        yield f"{'checked':10} {looked}"
        for finding in self.findings:
            yield f"  {finding.grade}: {finding.kind}, {finding.place}: {finding.what}"
        for kind, count in self.found.items():
            listed = sum(f"{finding.grade}: {finding.kind}" == kind for finding in self.findings)
            if count > listed:
                yield f"  {kind}: {count - listed:,} more"
        notes = sum(self.found.values()) - self.damaged
        yield f"{'damage':10} {self.damaged:,} found; {notes:,} notes"
        if self.damaged:
            yield f"  {SAVE}"


class Diagnosis(Result, frozen=True, kw_only=True):
    """Result of :func:`doctor`."""

    ragrounds: str
    """Version of ragrounds."""
    python: str
    home: str
    settings: str
    """Settings file, and whether it exists."""
    store: str
    """Location of the runs, and their number."""
    extras: dict[str, bool]
    """Extra of this package → True if it is installed."""
    additions: tuple[Addition, ...]
    """Additions of installed packages, by kind and name."""
    model: ServerCapabilities | None = None
    """Abilities of the model's server; ``None`` if no model was given."""
    concurrency: ConcurrencyCheck | None = None
    """Answers with different numbers of attempts in flight; ``None`` if they were not requested."""
    contents: StoreCheck | None = None
    """Check of the store; ``None`` if the store was not checked."""
    saved: SavedStore | None = None
    """Parts that were saved of a damaged store; `store` and `contents` are the new store's.

    ``None`` if nothing was to be saved.
    """

    @property
    def verdict(self) -> str:
        """Return the problems in a sentence, and the parts that were not checked."""
        broken = sum(bool(addition.fault) for addition in self.additions)
        wrong = []
        if broken:
            wrong.append(f"{broken:,} of {len(self.additions):,} additions of installed packages cannot be used")
        if self.contents is not None and self.contents.damaged:
            wrong.append(f"the store has {self.contents.damaged:,} damaged or missing parts")
        if self.contents is not None and (n_keys := self.contents.found.get(f"note: {KEY}", 0)):
            wrong.append(f"keys of this environment are in {number_of(n_keys, 'record')} of the store")
        unseen = [] if self.contents is not None else ["what the store holds (--store)"]
        unseen += [] if self.model is not None else ["a model's server (--model)"]
        problems = f"Wrong: {'; '.join(wrong)}." if wrong else "No problem was found."
        return f"{problems} Not checked: {'; '.join(unseen)}." if unseen else problems

    def lines(self) -> Iterator[str]:
        """Yield the verdict, the abilities of the model's server, and all other results, in words."""
        yield self.verdict
        yield from _server_lines(self.model)  # the requested part comes first
        if self.concurrency is not None:
            yield from self.concurrency.lines()
        for name in ("ragrounds", "python", "home", "settings", "store"):
            yield f"{name:10} {getattr(self, name)}"
        installed = ", ".join(name for name, there in self.extras.items() if there) or "none"
        missing = ", ".join(name for name, there in self.extras.items() if not there) or "none"
        yield f"{'extras':10} installed: {installed}; not installed: {missing} (pip install 'ragrounds[NAME]')"
        yield from _addition_lines(self.additions)
        if self.saved is not None:
            yield from self.saved.lines()
        if self.contents is not None:
            yield from self.contents.lines()

    def draw(self, console: Console) -> None:
        """Print all results, as the command does."""
        for line in self.lines():
            console.print(Text(safe(line)), soft_wrap=True)


def _addition_lines(additions: tuple[Addition, ...]) -> Iterator[str]:
    broken = sum(bool(addition.fault) for addition in additions)
    yield f"{'additions':10} {len(additions)} from installed packages" + (f", {broken} broken" if broken else "")
    for addition in additions:
        source = f"{addition.package} {addition.version}".strip()
        yield f"  {addition.kind or addition.group:13} {addition.name}, from {source} ({addition.value})"
        if addition.fault:
            yield f"    broken: {addition.fault}"


_CAPABILITIES = {
    "stops": "stop strings end the text",
    "names_stop": "says which stop string it was",
    "keeps_stop": "leaves the stop string in the text",
    "tools": "takes tools, and shows them to the model",
    "chooses": "calls the tool that is required",
    "forms": "follows a JSON schema in replies",
    "adds_system": "adds a system turn of its own to prompts without one",
    "logprobs": "gives log probabilities",
}


def _server_lines(probed: ServerCapabilities | None) -> Iterator[str]:
    if probed is None:
        return
    answers = {True: "yes", False: "no", None: "unknown"}
    yield f"{'model':10} {probed.spec}"
    yield f"  continues its own text by: {probed.continues} ({probed.reason})"
    for name, words in _CAPABILITIES.items():
        yield f"  {words}: {answers[getattr(probed, name)]}"
    yield f"  its reply names the model: {probed.answered_by or 'no'}"
    if probed.server_facts:
        yield f"  reports of the model: {', '.join(f'{name} {value}' for name, value in probed.server_facts.items())}"


def doctor(
    model: str | None = None,
    base_url: str | None = None,
    alias: str | None = None,
    *,
    concurrency: int | None = None,
    store: bool = False,
    save: str | Path | None = None,
    progress: Progress | bool | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Diagnosis:
    """Check the installation.

    The result names the paths, the installed extras, the additions of other packages, the abilities of a model's
    server, and damage of the store.

        rr.doctor(store=True).contents.damaged

    Every installed package that adds something is imported. With a model, its server is asked a few questions of some
    twenty tokens each. The store is only read: each row is decoded and checked against its check sum, references must
    be complete, and stored answers are scored again by the scorers that ask no model.

    Args:
        model: ``provider:model``.
        base_url, alias: address of the model's OpenAI-compatible server, and a name for several; by default the
            settings'.
        concurrency: also ask 20 questions of the sample with 1, a quarter of this number, and this number of attempts
            in flight, and count the answers that differ.
        store: check the whole store, which takes some thirty seconds for 100,000 short attempts.
        save: a new folder: everything that can be read of the store's file, even if it is damaged, is saved into a
            store there, and the new store is checked.
        progress: function that gets the current step and how many are done; False to show nothing.
        home, settings: the folder of runs and journal, and all settings; by default the user's.

    Raises:
        UserError: the model's text is wrong, `concurrency` is below 2 or given without a model, or the store cannot be
            opened.
        StopRun: the server cannot be reached, refuses the key or does not know the model.
    """
    used_settings = chosen_settings(settings, home)
    if concurrency is not None and (model is None or concurrency < 2):
        raise UserError(f"--concurrency {concurrency}: expected 2 or more, and a model, --model openai:NAME.")
    if store and used_settings.store is None and not used_settings.home.is_dir():
        raise UserError(f"There is no store to check: the folder {str(used_settings.home)!r} does not exist.")
    saved = None
    if save is not None:
        if used_settings.store is not None:
            raise UserError(
                "--save is for a store in a file. Save a store on a server with the server's own tools: pg_dump."
            )
        with counted(progress) as tell:
            saved = save_store(used_settings.home / "store.sqlite", Path(save), used_settings.home, tell)
        used_settings = chosen_settings(used_settings, save)
    with open_store(used_settings) as opened:
        contents = _check_store(opened, progress) if store or saved else None
        location = opened.location
        try:
            stored = opened.runs(counterfactuals=True)
            n_derived = sum(run.is_derived for run in stored)
            runs = number_of(len(stored) - n_derived, "run")
            runs += f" and {n_derived:,} of their counterfactuals and repetitions" if n_derived else ""
        except (DatabaseError, DamagedRecord):
            runs = "whose runs cannot be read"
    probed = at_once = None
    if model is not None:
        text = with_defaults(model, {**server_defaults(base_url, alias, used_settings), "timeout": 60.0})
        probed = finish(probe(text))
        at_once = check_concurrency(model, base_url, alias, concurrency, used_settings) if concurrency else None
    return Diagnosis(
        ragrounds=__version__,
        python=platform.python_version(),
        home=str(used_settings.home),
        settings=str(settings_file()) + ("" if settings_file().is_file() else " (not there: defaults)"),
        store=f"{location}, {runs}",
        extras=_installed_extras(),
        additions=tuple(additions()),
        model=probed,
        concurrency=at_once,
        contents=contents,
        saved=saved,
    )


def _installed_extras() -> dict[str, bool]:
    """Return each extra of this package, with True if all its requirements are installed."""
    extras: dict[str, bool] = {}
    with suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("ragrounds") or ():
            if extra := re.search(r"extra == ['\"]([\w-]+)", line):
                requirement = re.split(r"[^\w.-]", line, maxsplit=1)[0]
                extras[extra[1]] = extras.get(extra[1], True) and _is_installed(requirement)
    return {name: extras[name] for name in sorted(extras) if name not in _DEVELOPER_EXTRAS}


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _check_store(store: Store, progress: Progress | bool | None) -> StoreCheck:
    findings = Findings()
    with counted(progress) as tell:
        walk = Verification(store.engine, findings, tell)
        walk.walk()
        if not walk.unreadable:
            for run in walk.runs.values():
                check_scores(store, run, findings, tell)
    return StoreCheck(
        checked=dict(findings.checked),
        found={f"{grade}: {kind}": count for (grade, kind), count in sorted(findings.counts.items())},
        findings=tuple(sorted(findings.findings, key=lambda finding: (finding.grade, finding.kind))),
    )


def additions() -> list[Addition]:
    """Return the additions of installed packages, by kind and name, with their faults. All of them are imported."""
    points = extension_points()
    declared_additions = [(point.hook.noun, addition) for point in points.values() for addition in point.additions()]
    for addition in declared("ragrounds."):
        if addition.group not in points:
            hint = nearest(addition.group, points) or f" Groups: {', '.join(points)}."
            declared_additions.append(("", addition._replace(fault=f"there is no such group.{hint}")))
    return [Addition(kind=kind, **addition._asdict()) for kind, addition in declared_additions]
