"""What came of all pages: the lines at the end, and the page perf/blocks.md."""

from __future__ import annotations

import datetime
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from blocks.pages import Page
from blocks.rules import Rules, Special
from blocks.runner import Outcome

_FATES = ("run", "compared", "written", "parsed", "setup", "shown", "not run", "failed")


@dataclass(frozen=True)
class Result:
    """What came of a page."""

    page: Page
    outcomes: list[Outcome]
    met: set[Special]
    seconds: float

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        return [fault for outcome in self.outcomes for fault in outcome.faults]

    @property
    def fates(self) -> Counter[str]:
        """How many blocks came to what."""
        return Counter(outcome.fate for outcome in self.outcomes)

    @property
    def commands(self) -> int:
        """Commands and Python blocks that were run."""
        return sum(outcome.commands for outcome in self.outcomes)

    @property
    def not_run(self) -> list[tuple[str, str]]:
        """Commands that were not run, each with the reason."""
        return [one for outcome in self.outcomes for one in outcome.not_run]

    @property
    def counts(self) -> str:
        """The same in words."""
        return _counted(self.fates)


def _counted(fates: Counter[str]) -> str:
    return ", ".join(f"{fates[fate]} {fate}" for fate in _FATES if fates[fate])


def _totals(results: Sequence[Result]) -> tuple[Counter[str], int, int]:
    fates: Counter[str] = Counter()
    for result in results:
        fates += result.fates
    return fates, sum(result.commands for result in results), sum(len(result.not_run) for result in results)


def print_summary(results: Sequence[Result], seconds: float) -> None:
    """The counts, the commands that were not run, and what failed."""
    fates, commands, not_run = _totals(results)
    for result in results:
        for command, reason in result.not_run:
            sys.stdout.write(f"not run: {result.page.name}: {' '.join(command.split())}\n    {reason}\n")
    sys.stdout.write(
        f"{len(results)} pages, {sum(fates.values())} blocks: {_counted(fates)}. "
        f"{commands} commands and Python blocks were run, {not_run} are listed as not runnable; {seconds:.0f} s.\n"
    )
    for result in results:
        if result.faults:
            sys.stdout.write(f"failed: {result.page.name}: {len(result.faults)} faults\n")


def print_list(pages: Sequence[Page]) -> None:
    """Blocks by page and kind."""
    for page in pages:
        if page.blocks:
            kinds = Counter(block.role for block in page.blocks)
            sys.stdout.write(f"{page.name}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}\n")


def page_text(results: Sequence[Result], rules: Rules, seconds: float, quick: bool) -> str:
    """The page perf/blocks.md."""
    fates, commands, not_run = _totals(results)
    how = " --quick" if quick else ""
    lines = [
        "# Everything that is shown is run",
        "",
        f"{datetime.date.today().isoformat()}. `python docs/scripts/run_blocks.py{how} --write`: every block of "
        "README, docs, help texts and docstrings, in a folder for each page, against a model server on loopback.",
        "",
        f"**{sum(fates.values())} blocks on {len(results)} pages: {_counted(fates)}.** {commands} commands and Python "
        f"blocks were run, {not_run} are listed as not runnable. {seconds / 60:.1f} minutes on two cores.",
        "",
        "*run*: ended as it should. *compared*: its output is what the page shows. *written*: a file of the page. "
        "*parsed*: data in the form that it names. *setup*: runs that a reader has already. *shown*: text, diagrams.",
        "",
        "| page | blocks | commands | run | compared | files and data | not run | failed | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for result in sorted(results, key=lambda one: one.page.name):
        found = result.fates
        lines.append(
            f"| {result.page.name} | {len(result.outcomes)} | {result.commands} | {found['run']} | {found['compared']} "
            f"| {found['written'] + found['parsed']} | {len(result.not_run)} | {found['failed']} "
            f"| {result.seconds:.0f} |"
        )
    lines += ["", "## Not run", "", "The options of these commands are checked.", ""]
    lines += ["| page | command | reason |", "|---|---|---|"]
    for result in results:
        for command, reason in result.not_run:
            shown = " ".join(command.split()).replace("|", "\\|")
            lines.append(f"| {result.page.name} | `{shown[:120]}` | {reason} |")
    lines += ["", "## Made equal before the comparison", "", "| pattern | becomes | why |", "|---|---|---|"]
    for one in rules.volatile:
        pattern = one.pattern.pattern.replace("|", "\\|")
        lines.append(f"| `{pattern}` | `{one.becomes}` | {one.why} |")
    lines += ["", "## Stands in", "", "| pattern | becomes | why |", "|---|---|---|"]
    for one in rules.stands_in:
        pattern = one.pattern.pattern.replace("|", "\\|")
        lines.append(f"| `{pattern}` | `{one.becomes}` | {one.why} |")
    return "\n".join(lines) + "\n"
