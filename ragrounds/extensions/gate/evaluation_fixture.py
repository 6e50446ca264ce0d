"""The object `ragrounds` of tests: it runs agents on a benchmark, answered from a journal file, and checks claims.

`ragrounds.extensions.gate.pytest_plugin` creates one for each test. Nothing of the user's own store and settings is
read, so that a test gives the same result on every machine: everything that it needs is in the test, in its marker, or
in the fixture `ragrounds_arguments`.
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
from ragrounds.api.progress import TerminalListener
from ragrounds.api.run import RunResult
from ragrounds.api.runs import runs
from ragrounds.api.workspace import RunsGiven
from ragrounds.base.errors import Interrupted, UserError, nearest, one_of
from ragrounds.base.settings import Settings
from ragrounds.extensions.gate.journal import JournalFile, read_journal, write_journal
from ragrounds.ui.tables.claim_text import against_lines, claim_lines
from ragrounds.ui.tables.comparison_tables import print_comparison
from ragrounds.ui.tables.notebook import text_of
from ragrounds.ui.text import number_of, one_line

if TYPE_CHECKING:
    from ragrounds.extensions.gate.functions import GateResult

Undecided = Literal["fail", "skip", "pass"]
"""Effect on a test of a claim that cannot be decided on so few questions."""
_FIXED_ARGUMENTS = ("journal", "home", "settings", "listener", "progress")
"""Arguments of :func:`ragrounds.run` that a test cannot set."""


_VERBS = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is undecided", "are undecided")}


class ClaimsFailed(AssertionError):
    """Claims about runs that do not hold."""


class RunFailed(AssertionError):
    """Failure to run agents: a call is not in the journal file, or an argument is wrong."""


class FixturePaths(Struct, frozen=True, kw_only=True):
    """Location of a test, and of the files that belong to it."""

    folder: Path
    """Folder of the test's file: relative paths in its arguments begin there."""
    journals: Path
    """Folder of journal files: while one is recorded, calls of the others are not paid for again."""
    journal: Path
    """Journal file."""
    shared: bool
    """True if other tests have the same journal file."""
    home: Path
    """Home folder of this process's store for this journal file."""
    indexes: Path
    """Folder where indexes of corpora are kept between sessions."""
    prices: Path
    """Price list of the project's models, if it has one (docs/how-to/ci.md)."""
    record: bool
    """True to ask models for calls that the journal file lacks, and to record them; else a missing call is an error."""
    again: str
    """Command that records."""


class EvaluationFixture:
    """Runner of agents and checker of claims in a test.

        def test_search_is_worth_it(ragrounds):
            ragrounds.run("sample", ["direct", "vanilla_rag[top_k=8]"], model="openai:gpt-4o-mini", limit=40)
            ragrounds.check("accuracy(vanilla_rag) - accuracy(direct) > 0 @ 95%", "failed(vanilla_rag) <= 0")

    Args:
        paths: location of the test.
        defaults: arguments of :meth:`run` that a call may leave out.
    """

    def __init__(self, paths: FixturePaths, defaults: Mapping[str, object]) -> None:
        self.paths, self._defaults = paths, dict(defaults)
        self._settings = _settings(paths)
        self._exit_stack = contextlib.ExitStack()
        self._results: list[RunResult] = []
        self._opened = False
        self._checked: list[CompareResult] = []
        self.passed = False
        """True if the test passed: then calls that its runs did not use are removed from the journal file."""

    @property
    def result(self) -> RunResult:
        """Return the result of the last :meth:`run`.

        Raises:
            RunFailed: nothing was run.
        """
        __tracebackhide__ = True
        if not self._results:
            raise RunFailed("Nothing has been run in this test yet: call ragrounds.run(…) first.")
        return self._results[-1]

    def run(self, benchmark: str | None = None, agents: object = None, **arguments: object) -> RunResult:
        """Run agents on a benchmark, as :func:`ragrounds.run` does, answered from the test's journal file.

        Args:
            benchmark, agents: as there; by default the marker's, or those of the fixture `ragrounds_arguments`.
            arguments: all others of :func:`ragrounds.run` but `journal`, `home`, `settings`, `listener`, `progress`.
                Relative paths begin at the folder of the test's file.

        Raises:
            RunFailed: a call is not in the journal file and nothing is recorded; a call cannot be recorded; an
                argument, agent, benchmark or model is unknown.
            KeyboardInterrupt: Ctrl-C; calls recorded until then are kept.
        """
        __tracebackhide__ = True
        from ragrounds.api.run import run

        positional = {"benchmark": benchmark, "agents": agents}
        run_arguments = {**self._defaults, **{k: v for k, v in positional.items() if v is not None}, **arguments}
        try:
            parameters = signature(run).parameters
            for name in run_arguments:
                if name in _FIXED_ARGUMENTS:
                    raise UserError(
                        f"{name} cannot be set in a test: the ragrounds plugin sets it (--ragrounds-record)."
                    )
                if name not in parameters:
                    raise UserError(f"ragrounds.run() has no argument {name!r}.{nearest(name, parameters)}")
            self._open()
            run_arguments |= {"settings": self._settings, "listener": TerminalListener("none")}
            # A replay costs nothing, so it needs no confirmation.
            run_arguments |= {"journal": "reuse"} if self.paths.record else {"journal": "replay", "confirmed": True}
            bound = signature(run).bind(**run_arguments)
            with contextlib.chdir(self.paths.folder):
                result = run(*bound.args, **bound.kwargs)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None
        except UserError as error:
            raise RunFailed(self._explain_error(error)) from None
        self._results.append(result)
        if unrecorded := ", ".join(row.agent for row in result.comparison.rows if row.unrecorded):
            notes = [note for note in result.comparison.notes if "not recorded" in note]
            reason = f"Calls of {unrecorded} cannot be recorded, so a replay refuses them."
            raise RunFailed("\n\n".join([reason, *notes]))
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
            runs: runs of the claims; by default those of the last :meth:`run`.
            scorer: scorer of the claims; by default the headline.
            common: compare on the questions that all runs have, if they differ.
            undecided: effect of a claim that cannot be decided on so few questions.

        Returns:
            The comparison with the claims' decisions.

        Raises:
            ClaimsFailed: a claim fails, or is undecided and `undecided` is ``fail``. The message has each claim with
                its measured value, the questions that speak against it, and the table.
            unittest.SkipTest: a claim is undecided, and `undecided` is ``skip``: pytest skips the test.
            RunFailed: a claim cannot be parsed, or names another run.
        """
        __tracebackhide__ = True
        claimed_runs = self.result if runs is None else runs
        try:
            one_of("undecided", undecided, ("fail", "skip", "pass"))
            if not claims:
                raise UserError("check() needs a claim, such as 'accuracy(direct) >= 60% @ 95%'.")
            comparison = compare(
                claimed_runs, claims=claims, scorers=scorer or (), common=common, settings=self._settings
            )
        except UserError as error:
            raise RunFailed(str(error)) from None
        self._checked.append(comparison)
        if comparison.decision == "fails" or (comparison.decision == "undecided" and undecided == "fail"):
            raise ClaimsFailed(failure_text(comparison))
        if comparison.decision == "undecided" and undecided == "skip":
            raise unittest.SkipTest(failure_text(comparison).split("\n\n")[1])
        return comparison

    def gate(self, policy: str | Path, *, undecided: Undecided = "fail") -> GateResult:
        """Decide a release by a policy (docs/how-to/gate.md), answered from the test's journal file.

        Args:
            policy: file of the policy, relative to the folder of the test's file.
            undecided: effect of an undecided verdict.

        Raises:
            ClaimsFailed: NO-GO; or UNDECIDED, and `undecided` is ``fail``.
            unittest.SkipTest: UNDECIDED, and `undecided` is ``skip``.
            RunFailed: as :meth:`run`.
        """
        __tracebackhide__ = True
        from ragrounds.extensions.gate.functions import gate

        try:
            one_of("undecided", undecided, ("fail", "skip", "pass"))
            self._open()
            journal = "reuse" if self.paths.record else "replay"
            quiet = TerminalListener("none")
            decided = gate(self.paths.folder / policy, journal=journal, settings=self._settings, listener=quiet)
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None
        except UserError as error:
            raise RunFailed(self._explain_error(error)) from None
        if decided.run is not None:
            self._results.append(decided.run)
        if decided.verdict == "NO-GO" or (decided.verdict == "UNDECIDED" and undecided == "fail"):
            raise ClaimsFailed(str(decided))
        if decided.verdict == "UNDECIDED" and undecided == "skip":
            raise unittest.SkipTest(decided.reason)
        return decided

    def run_marked(self, claims: Sequence[str], options: Mapping[str, object]) -> None:
        """Run the arguments of a test's marker, and check its claims, with options of :meth:`check`.

        Raises:
            ClaimsFailed, RunFailed: as :meth:`run` and :meth:`check`.
        """
        self.run()
        bound = signature(self.check).bind(*claims, **options)
        self.check(*bound.args, **bound.kwargs)

    def close(self) -> JournalFile | None:
        """Write the recorded calls. ``None`` if nothing is recorded, or nothing was run.

        Raises:
            UserError: the journal file cannot be written.
        """
        with self._exit_stack:
            if not self.paths.record or not self._opened:
                return None
            if self.passed and not self.paths.shared:
                ids = list(dict.fromkeys(id for result in self._results for id in result.ids))
                return write_journal(ids, self.paths.journal, settings=self._settings)
            every = [run.id for run in runs(settings=self._settings)]
            return (
                write_journal(every, self.paths.journal, keep=True, every=True, settings=self._settings)
                if every
                else None
            )

    def summary(self, journal_file: JournalFile | None) -> dict[str, object]:
        """Return a summary of runs and claims as plain values; empty if nothing was run.

        `journal_file` is the result of :meth:`close`.
        """
        if not self._results:
            return {}
        decisions = Counter(claim.decision for compared in self._checked for claim in compared.claims)
        summary: dict[str, object] = {
            "made": sum(result.made for result in self._results),
            "reused": sum(result.reused for result in self._results),
            "claims": ", ".join(
                f"{number_of(count, 'claim')} {_VERBS[decision][count > 1]}" for decision, count in decisions.items()
            ),
        }
        if journal_file is not None:
            summary["recorded"] = number_of(journal_file.calls, "call")
        return summary

    def _open(self) -> None:
        """Let the store answer from the journal file. Only the first call does anything."""
        if self._opened:
            return
        test = self.paths
        if not test.record and not test.journal.is_file():
            raise UserError(f"There is no journal file {test.journal} yet.")
        if test.record:
            self._exit_stack.enter_context(_journal_lock(test.journal))
        read_marker = test.home / "journal-read"
        if test.journal.is_file() and (test.record or not read_marker.exists()):
            read_journal(test.journal, settings=self._settings)
            read_marker.touch()
        for other in sorted(test.journals.rglob("*.jsonl")) if test.record else ():
            with contextlib.suppress(UserError):  # it belongs to another test, which reports the error
                read_journal(other, settings=self._settings)
        self._opened = True

    def _explain_error(self, error: UserError) -> str:
        """Return an error with advice on how to fix it."""
        if self.paths.record or not ("not in the journal" in str(error) or "no journal file" in str(error)):
            return str(error)
        cause = "" if "no journal file" in str(error) else " The calls have changed since they were recorded."
        return (
            f"{error}\n\nA replay in tests sends nothing.{cause} Record it, and commit the file "
            f"{self.paths.journal.name}:\n\n    {self.paths.again}"
        )


def failure_text(comparison: CompareResult) -> str:
    """Return why a test fails: the claims, the questions that speak against them, the table."""
    bad = [claim for claim in comparison.claims if claim.decision != "holds"]
    claim_texts = "; ".join(one_line(claim.claim, 200) for claim in bad)
    fails, claim_count = sum(claim.decision == "fails" for claim in bad), number_of(len(comparison.claims), "claim")
    counts = [f"{fails:,} of {claim_count} {'does' if fails == 1 else 'do'} not hold"] if fails else []
    if undecided := len(bad) - fails:
        counts.append(f"{undecided:,} undecided" if counts else f"{undecided:,} of {claim_count} undecided")
    parts = [f"{', '.join(counts)}: {claim_texts}"]
    parts += ["\n".join(claim_lines([claim])) for claim in bad]
    parts += ["\n".join(against_lines([claim])) for claim in bad]
    parts += ["\n".join(claim_lines([claim])) for claim in comparison.claims if claim.decision == "holds"]
    parts.append(text_of(lambda console: print_comparison(comparison.comparison, comparison.scorers, console)))
    return "\n\n".join(parts)


def _settings(test: FixturePaths) -> Settings:
    """Return the default settings, whatever the user's own are, with the test's store.

    A test's code runs anyway, so agents' files next to it may run their code, too.
    """
    test.home.mkdir(parents=True, exist_ok=True)
    test.indexes.mkdir(parents=True, exist_ok=True)
    for name, target in (("indexes", test.indexes), ("prices.toml", test.prices)):
        if target.exists():
            with contextlib.suppress(FileExistsError):
                (test.home / name).symlink_to(target)
    fields = {name: field.get_default() for name, field in Settings.model_fields.items() if name != "base_url"}
    return Settings.model_construct(**{**fields, "home": test.home, "base_url": None, "allow_code": True})


@contextlib.contextmanager
def _journal_lock(journal: Path) -> Iterator[None]:
    """Lock a journal file against other processes that record into it; the system releases it when this process
    dies.
    """
    name = hashlib.sha256(str(journal.absolute()).encode()).hexdigest()[:24]
    with (Path(tempfile.gettempdir()) / f"ragrounds-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
