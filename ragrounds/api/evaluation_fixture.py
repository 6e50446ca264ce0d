"""What a test has in its hands as `ragrounds`: it runs agents on a benchmark, answered from a journal file, and checks
claims about them. `ragrounds.cli.pytest_plugin` makes one for each test.

Nothing of the user's own store and settings is read, so that a test gives the same on every machine: what it needs
stands in the test, in its marker, or in the fixture `ragrounds_arguments`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
import unittest
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ragrounds.api.compare import CompareResult, compare
from ragrounds.api.journal import JournalFile, read_journal, write_journal
from ragrounds.api.progress import TerminalListener
from ragrounds.api.run import RunResult
from ragrounds.api.runs import runs
from ragrounds.api.workspace import RunsGiven, one_of
from ragrounds.base.errors import Interrupted, UserError, nearest
from ragrounds.base.settings import Settings
from ragrounds.ui.tables.claim_text import against_lines, claim_lines
from ragrounds.ui.tables.comparison_tables import print_comparison
from ragrounds.ui.tables.notebook import text_of
from ragrounds.ui.text import number_of, one_line

if TYPE_CHECKING:
    from ragrounds.api.gate import GateResult

Undecided = Literal["fail", "skip", "pass"]
"""What a claim makes of a test that nobody can decide on so few questions."""
_SET_HERE = ("journal", "home", "settings", "listener", "progress")
"""Arguments of :func:`ragrounds.run` that a test does not choose."""


_VERBS = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is undecided", "are undecided")}


class ClaimsFailed(AssertionError):
    """Claims about runs do not hold."""


class RunFailed(AssertionError):
    """Agents could not be run: a call is not in the journal file, or an argument is wrong."""


class PlaceOfTest(Struct, frozen=True, kw_only=True):
    """Where a test is, and where what belongs to it is kept."""

    folder: Path
    """Of the test's file: relative paths in its arguments begin there."""
    journals: Path
    """The folder of journal files: while one is recorded, no call is paid for that another one holds."""
    journal: Path
    """The journal file."""
    shared: bool
    """Whether other tests have the same journal file."""
    home: Path
    """Of the store that this process has for this journal file."""
    indexes: Path
    """Where indexes of corpora are kept between sessions."""
    prices: Path
    """The price list of the project's models, where it has one (docs/how-to/ci.md)."""
    record: bool
    """Ask models for what the journal file lacks, and write it; else it is an error."""
    again: str
    """The command that records."""


class EvaluationFixture:
    """Runs agents in a test and checks claims about them.

        def test_search_is_worth_it(ragrounds):
            ragrounds.run("sample", ["direct", "vanilla_rag[top_k=8]"], model="openai:gpt-4o-mini", limit=40)
            ragrounds.check("accuracy(vanilla_rag) - accuracy(direct) > 0 @ 95%", "failed(vanilla_rag) <= 0")

    Args:
        place: where the test is.
        defaults: arguments of :meth:`run` that a call leaves open.
    """

    def __init__(self, place: PlaceOfTest, defaults: Mapping[str, object]) -> None:
        self.place, self._defaults = place, dict(defaults)
        self._settings = _settings(place)
        self._held = contextlib.ExitStack()
        self._results: list[RunResult] = []
        self._opened = False
        self._checked: list[CompareResult] = []
        self.passed = False
        """Whether the test ended as it should: then what its runs did not use leaves the journal file."""

    @property
    def result(self) -> RunResult:
        """What the last :meth:`run` gave.

        Raises:
            RunFailed: there was none.
        """
        __tracebackhide__ = True
        if not self._results:
            raise RunFailed("Nothing has been run in this test yet: call ragrounds.run(…) first.")
        return self._results[-1]

    def run(self, benchmark: str | None = None, agents: object = None, **arguments: object) -> RunResult:
        """Run agents on a benchmark, as :func:`ragrounds.run` does, answered from the test's journal file.

        Args:
            benchmark, agents: as there; ``None``: the marker's, or those of the fixture `ragrounds_arguments`.
            arguments: all others of :func:`ragrounds.run` but `journal`, `home`, `settings`, `listener`, `progress`.
                Relative paths begin at the folder of the test's file.

        Raises:
            RunFailed: a call that is not in the journal file, where nothing is recorded; one that cannot be recorded;
                an unknown argument, agent, benchmark or model.
            KeyboardInterrupt: Ctrl-C; what was recorded until then is kept.
        """
        __tracebackhide__ = True
        from ragrounds.api.run import run

        given = {name: value for name, value in (("benchmark", benchmark), ("agents", agents)) if value is not None}
        given = {**self._defaults, **given, **arguments}
        try:
            _check_arguments(given, signature(run).parameters)
            self._open()
            given |= {"settings": self._settings, "listener": TerminalListener("none")}
            # A replay costs nothing, so nobody has to confirm it.
            given |= {"journal": "reuse"} if self.place.record else {"journal": "replay", "confirmed": True}
            bound = signature(run).bind(**given)
            with contextlib.chdir(self.place.folder):
                result = run(*bound.args, **bound.kwargs)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None
        except UserError as error:
            raise RunFailed(self._explained(error)) from None
        self._results.append(result)
        if any(row.unrecorded for row in result.comparison.rows):
            raise RunFailed(_unrecorded(result))
        return result

    def check(
        self,
        *claims: str,
        runs: RunsGiven | None = None,
        scorer: str | None = None,
        common: bool = False,
        undecided: Undecided = "fail",
    ) -> CompareResult:
        """Check claims about runs: all must hold.

        Args:
            claims: ``accuracy(direct) >= 60% @ 95%``: docs/reference/compare.md has the language.
            runs: which; ``None``: those of the last :meth:`run`.
            scorer: that scores are by; ``None``: the headline's.
            common: on the questions that all runs have, where they differ.
            undecided: what is made of a claim that cannot be decided on so few questions.

        Returns:
            The comparison with the claims' decisions.

        Raises:
            ClaimsFailed: a claim fails, or is undecided and `undecided` is ``fail``. The message has each claim
                with what was measured, the questions that speak against it, and the table.
            unittest.SkipTest: a claim is undecided, and `undecided` is ``skip``: pytest skips the test.
            RunFailed: a claim that cannot be read, or names another run.
        """
        __tracebackhide__ = True
        chosen = self.result if runs is None else runs
        try:
            one_of("undecided", undecided, ("fail", "skip", "pass"))
            if not claims:
                raise UserError("check() needs a claim, such as 'accuracy(direct) >= 60% @ 95%'.")
            found = compare(chosen, claims=claims, scorers=scorer or (), common=common, settings=self._settings)
        except UserError as error:
            raise RunFailed(str(error)) from None
        self._checked.append(found)
        if found.decision == "fails" or (found.decision == "undecided" and undecided == "fail"):
            raise ClaimsFailed(failure_text(found))
        if found.decision == "undecided" and undecided == "skip":
            raise unittest.SkipTest(failure_text(found).split("\n\n")[1])
        return found

    def gate(self, policy: str | Path, *, undecided: Undecided = "fail") -> GateResult:
        """Decide a release by a policy (docs/how-to/gate.md), answered from the test's journal file.

        Args:
            policy: its file, from the folder of the test's file.
            undecided: what is made of a verdict that is not made.

        Raises:
            ClaimsFailed: NO-GO; or UNDECIDED, and `undecided` is ``fail``.
            unittest.SkipTest: UNDECIDED, and `undecided` is ``skip``.
            RunFailed: as :meth:`run`.
        """
        __tracebackhide__ = True
        from ragrounds.api.gate import gate

        try:
            one_of("undecided", undecided, ("fail", "skip", "pass"))
            self._open()
            journal = "reuse" if self.place.record else "replay"
            quiet = TerminalListener("none")
            found = gate(self.place.folder / policy, journal=journal, settings=self._settings, listener=quiet)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None
        except UserError as error:
            raise RunFailed(self._explained(error)) from None
        if found.run is not None:
            self._results.append(found.run)
        if found.verdict == "NO-GO" or (found.verdict == "UNDECIDED" and undecided == "fail"):
            raise ClaimsFailed(str(found))
        if found.verdict == "UNDECIDED" and undecided == "skip":
            raise unittest.SkipTest(found.why)
        return found

    def run_marked(self, claims: Sequence[str], options: Mapping[str, object]) -> None:
        """Run what a test's marker says, and check its claims, with options of :meth:`check`.

        Raises:
            ClaimsFailed, RunFailed: as :meth:`run` and :meth:`check`.
        """
        self.run()
        bound = signature(self.check).bind(*claims, **options)
        self.check(*bound.args, **bound.kwargs)

    def close(self) -> JournalFile | None:
        """Write what was recorded. ``None``: nothing is recorded, or nothing was run.

        Raises:
            UserError: the journal file cannot be written.
        """
        with self._held:
            if not self.place.record or not self._opened:
                return None
            if self.passed and not self.place.shared:
                ids = list(dict.fromkeys(id for result in self._results for id in result.ids))
                return write_journal(ids, self.place.journal, settings=self._settings)
            every = [run.id for run in runs(settings=self._settings)]
            return (
                write_journal(every, self.place.journal, keep=True, every=True, settings=self._settings)
                if every
                else None
            )

    def told(self, written: JournalFile | None) -> dict[str, object]:
        """What runs and claims came to, as plain values; `written`: what :meth:`close` gave. Empty: nothing was run."""
        if not self._results:
            return {}
        held = Counter(claim.decision for found in self._checked for claim in found.claims)
        told: dict[str, object] = {
            "made": sum(result.made for result in self._results),
            "reused": sum(result.reused for result in self._results),
            "claims": ", ".join(
                f"{number_of(count, 'claim')} {_VERBS[decision][count > 1]}" for decision, count in held.items()
            ),
        }
        if written is not None:
            told["recorded"] = number_of(written.calls, "call")
        return told

    def _open(self) -> None:
        """Let the store answer from the journal file, the first time that it is needed."""
        if self._opened:
            return
        place = self.place
        if not place.record and not place.journal.is_file():
            raise UserError(f"There is no journal file {place.journal} yet.")
        if place.record:
            self._held.enter_context(_alone(place.journal))
        read = place.home / "journal-read"
        if place.journal.is_file() and (place.record or not read.exists()):
            read_journal(place.journal, settings=self._settings)
            read.touch()
        for other in sorted(place.journals.rglob("*.jsonl")) if place.record else ():
            with contextlib.suppress(UserError):  # it is another test's, and says so there
                read_journal(other, settings=self._settings)
        self._opened = True

    def _explained(self, error: UserError) -> str:
        """What is to be done about an error."""
        if self.place.record or not ("not in the journal" in str(error) or "no journal file" in str(error)):
            return str(error)
        asked = "" if "no journal file" in str(error) else " The calls have changed since they were recorded."
        return (
            f"{error}\n\nA replay in tests sends nothing.{asked} Record it, and commit the file "
            f"{self.place.journal.name}:\n\n    {self.place.again}"
        )


def failure_text(found: CompareResult) -> str:
    """Why a test fails: the claims, the questions that speak against them, the table."""
    bad = [claim for claim in found.claims if claim.decision != "holds"]
    named = "; ".join(one_line(claim.claim, 200) for claim in bad)
    fails, of = sum(claim.decision == "fails" for claim in bad), number_of(len(found.claims), "claim")
    said = [f"{fails:,} of {of} {'does' if fails == 1 else 'do'} not hold"] if fails else []
    if untold := len(bad) - fails:
        said.append(f"{untold:,} undecided" if said else f"{untold:,} of {of} undecided")
    parts = [f"{', '.join(said)}: {named}"]
    parts += ["\n".join(claim_lines([claim])) for claim in bad]
    parts += ["\n".join(against_lines([claim])) for claim in bad]
    parts += ["\n".join(claim_lines([claim])) for claim in found.claims if claim.decision == "holds"]
    parts.append(text_of(lambda console: print_comparison(found.comparison, found.scorers, console)))
    return "\n\n".join(parts)


def _unrecorded(result: RunResult) -> str:
    """What is said where a system's calls cannot be recorded."""
    agents = ", ".join(row.agent for row in result.comparison.rows if row.unrecorded)
    notes = [note for note in result.comparison.notes if "not recorded" in note]
    told = f"Calls of {agents} cannot be recorded, so a replay refuses them."
    return "\n\n".join([told, *notes])


def _settings(place: PlaceOfTest) -> Settings:
    """The defaults of the settings, whatever the user's own are, with a store of the test's own. A test's code runs
    anyway: agents' files beside it may run theirs."""
    place.home.mkdir(parents=True, exist_ok=True)
    place.indexes.mkdir(parents=True, exist_ok=True)
    for name, target in (("indexes", place.indexes), ("prices.toml", place.prices)):
        if target.exists():
            with contextlib.suppress(FileExistsError):
                (place.home / name).symlink_to(target)
    fields = {name: field.get_default() for name, field in Settings.model_fields.items() if name != "base_url"}
    return Settings.model_construct(**{**fields, "home": place.home, "base_url": None, "allow_code": True})


def _check_arguments(given: Mapping[str, object], known: Mapping[str, object]) -> None:
    for name in given:
        if name in _SET_HERE:
            raise UserError(f"{name} cannot be set in a test: the ragrounds plugin sets it (--ragrounds-record).")
        if name not in known:
            raise UserError(f"ragrounds.run() has no argument {name!r}.{nearest(name, known)}")


@contextlib.contextmanager
def _alone(journal: Path) -> Iterator[None]:
    """Hold a journal file against other processes that record into it; the system lets go when this process dies."""
    name = hashlib.sha256(str(journal.absolute()).encode()).hexdigest()[:24]
    with (Path(tempfile.gettempdir()) / f"ragrounds-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
