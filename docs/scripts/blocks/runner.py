"""Runs the blocks of a page from top to bottom and says what came of each."""

from __future__ import annotations

import csv
import json
import re
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from blocks.commands import Command, option_faults, split_commands
from blocks.outputs import agrees, difference
from blocks.pages import Block, Page, PageFault, session
from blocks.rules import Rules, Special
from blocks.scratch import Scratch
from blocks.session import Ended

Fate = Literal["run", "compared", "written", "parsed", "shown", "setup", "not run", "failed"]
SECONDS = 300.0
"""That a command or a Python block may take."""
_TAIL = 30
_COMMENT = re.compile(r"\s+#.*$")


@dataclass
class Outcome:
    """What came of a block."""

    block: Block
    fate: Fate
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    updates: list[tuple[int, int, str]] = field(default_factory=list)
    """Lines of the page (first, behind the last) and what was really printed in their place."""
    commands: int = 0
    """That were run."""
    not_run: list[tuple[str, str]] = field(default_factory=list)
    """Commands that were only checked, each with the reason."""


class PageRun:
    """One page as a reader would go through it."""

    def __init__(self, page: Page, scratch: Scratch, rules: Rules, tree: Any) -> None:
        self.page, self._scratch, self._rules, self._tree = page, scratch, rules, tree
        self._seconds = rules.seconds.get(page.name, SECONDS)
        self._last: Ended | None = None
        self.met: set[Special] = set()
        """Rules that were about a command of the page."""

    def run(self) -> list[Outcome]:
        """Run all blocks; one that fails does not end the page."""
        made = []
        if not self._rules.is_complete(self.page.name):
            # Reference pages explain a command before the file that it is about.
            for block in self.page.blocks:
                if block.file:
                    self._write(block)
        for block in self.page.blocks:
            began = time.monotonic()
            outcome = self._block(block)
            outcome.seconds = time.monotonic() - began
            if outcome.faults:
                outcome.fate = "failed"
            made.append(outcome)
        for left in self._scratch.terminal.close():
            made[-1].faults.append(left)
            made[-1].fate = "failed"
        return made

    def _block(self, block: Block) -> Outcome:
        if block.role == "setup":
            return self._commands(block, Outcome(block, "setup"))
        if block.role == "commands":
            return self._commands(block, Outcome(block, "run"))
        if block.role == "session":
            return self._session(block)
        if block.role == "output":
            return self._output(block)
        if block.role in ("python", "pycon"):
            return self._python(block)
        if block.role == "data":
            return self._data(block)
        if block.file:
            self._write(block)
            return Outcome(block, "written")
        return Outcome(block, "shown")

    def _commands(self, block: Block, outcome: Outcome) -> Outcome:
        """All commands of a block; what they print together is the block's output."""
        out, talk = "", ""
        commands = list(split_commands(block.text))
        for command in commands:
            wanted = block.exit if command is commands[-1] else 0
            ended = self._command(block, command, wanted, outcome)
            if ended:
                out, talk = out + ended.out, talk + ended.talk
        self._last = Ended(0, out, talk) if outcome.commands else None
        if not outcome.commands and outcome.not_run:
            outcome.fate = "not run"
        return outcome

    def _command(self, block: Block, command: Command, wanted: int, outcome: Outcome) -> Ended | None:
        """Run a command as the rules say; ``None``: it is one of those that are not run."""
        place = f"{block.page}:{block.line + command.offset}"
        outcome.faults += [f"{place}: {fault}" for fault in option_faults(command.text, self._tree)]
        if rule := self._rule(self._rules.not_run, command.text):
            outcome.not_run.append((command.text, rule.reason))
            return None
        typed = self._scratch.typed(command.text)
        terminal = self._scratch.terminal
        outcome.commands += 1
        if rule := self._rule(self._rules.ends, command.text):
            wanted = rule.code
        if rule := self._rule(self._rules.screens, command.text):
            ended = terminal.screen(typed, rule.keys, self._seconds)
        elif rule := self._rule(self._rules.served, command.text):
            ended = terminal.serve(f"{_COMMENT.sub('', typed)} {rule.adds}", rule.says, self._seconds)
        else:
            ended = terminal.run(typed, self._seconds, self._scratch.model_server(typed))
        ended = Ended(ended.code, self._scratch.shown(ended.out), self._scratch.shown(ended.talk))
        if ended.code != wanted:
            outcome.faults.append(
                f"{place}: exit code {ended.code}, not {wanted}\n  $ {command.text}\n{_tail(ended.told)}"
            )
        return ended

    def _rule(self, rules: Sequence[Special], command: str) -> Special | None:
        for rule in rules:
            if rule.meets(self.page.name, command):
                self.met.add(rule)
                return rule
        return None

    def _session(self, block: Block) -> Outcome:
        outcome = Outcome(block, "compared")
        try:
            typed = session(block)
        except PageFault as fault:
            outcome.faults.append(str(fault))
            return outcome
        for one in typed:
            wanted = block.exit if one is typed[-1] else 0
            ended = self._command(block, Command(one.command, one.line - block.line), wanted, outcome)
            if ended:
                self._compare(one.expected, ended, f"{block.page}:{one.line}", one.after, block.indent, outcome)
        if not outcome.commands:
            outcome.fate = "not run"
        return outcome

    def _output(self, block: Block) -> Outcome:
        outcome = Outcome(block, "compared")
        if self._last is None:
            outcome.fate = "not run"
        else:
            self._compare(block.text, self._last, block.place, block.line, block.indent, outcome)
        return outcome

    def _compare(self, expected: str, ended: Ended, place: str, line: int, indent: str, outcome: Outcome) -> None:
        volatile = self._rules.volatile
        if any(
            agrees(expected, came, volatile) for came in (ended.out, ended.talk + ended.out, ended.out + ended.talk)
        ):
            return
        came = ended.out or ended.talk
        outcome.faults.append(f"{place}: another output\n{difference(expected, came, volatile)}")
        if "…" not in expected:
            real = "".join(f"{indent}{one}".rstrip() + "\n" for one in came.rstrip().splitlines())
            outcome.updates.append((line, line + len(expected.splitlines()), real))

    def _python(self, block: Block) -> Outcome:
        if block.file:
            outcome = Outcome(block, "written")
            self._write(block)
            try:
                compile(block.text, block.place, "exec")
            except SyntaxError as fault:
                outcome.faults.append(f"{block.place}: {fault}")
            return outcome
        outcome = Outcome(block, "run")
        if rule := self._rule(self._rules.not_run, block.text):
            outcome.not_run.append((block.text, rule.reason))
            outcome.fate, self._last = "not run", None
            return outcome
        code = self._scratch.typed(block.text)
        cell = {"code": code, "page": block.page, "line": block.line, "kind": block.role}
        ended = self._scratch.terminal.python(cell | {"environment": self._scratch.model_server(code)}, self._seconds)
        self._last = Ended(ended.code, self._scratch.shown(ended.out))
        outcome.commands = 1
        if ended.code != block.exit:
            outcome.faults.append(f"{block.place}: the block fails\n{_tail(self._last.out)}")
        elif block.role == "pycon":
            outcome.fate = "compared"
        return outcome

    def _data(self, block: Block) -> Outcome:
        outcome = Outcome(block, "written" if block.file else "parsed")
        try:
            _parsed(block.language, block.text)
        except (ValueError, yaml.YAMLError, csv.Error) as fault:
            outcome.faults.append(f"{block.place}: no {block.language}: {fault}")
        if block.file:
            self._write(block)
        return outcome

    def _write(self, block: Block) -> None:
        path = self._scratch.terminal.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._scratch.typed(block.text), encoding="utf-8")


def _parsed(language: str, text: str) -> None:
    """Read a block as what it says it is.

    Raises:
        ValueError: it is not.
    """
    if language == "toml":
        tomllib.loads(text)
    elif language == "yaml":
        list(yaml.safe_load_all(text))
    elif language == "json":
        try:
            json.loads(text)
        except ValueError:
            for line in filter(str.strip, text.splitlines()):
                json.loads(line)
    else:
        rows = list(csv.reader(text.splitlines(), delimiter="\t" if language == "tsv" else ",", strict=True))
        if len({len(row) for row in rows}) > 1:
            raise ValueError("rows of different lengths")


def _tail(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_TAIL:])
