"""Runs that were named by a text: which one was taken is said; of several that fit, one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from ragrounds.api.run_choice import RunChoice, run_choices, several_fit
from ragrounds.cli.output import say
from ragrounds.ui.run_tables import told_apart


def chosen_runs(references: Sequence[str], latest: bool = False) -> list[str]:
    """The ids of the runs that are meant; what an agent's text or a name was taken for is said on standard error.

    Args:
        references: ids, beginnings of ids, agents' texts, or names.
        latest: take the newest of several.

    Raises:
        UserError: a reference to no run, or to several where nobody can be asked.
    """
    picked: dict[int, str] = {}
    found = run_choices(references, picked, newest=latest)
    while any(not choice.run for choice in found):
        place = next(place for place, choice in enumerate(found) if not choice.run)
        picked[place] = _asked(found[place])
        found = run_choices(references, picked)
    for reference, choice in zip(references, found, strict=True):
        if choice.run != reference:
            say(f"{reference}: {next(iter(told_apart(choice.fitting)))}")
    return [choice.run for choice in found]


def _asked(choice: RunChoice) -> str:
    """The id of the run that somebody at the terminal means.

    Raises:
        UserError: there is nobody.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise several_fit(choice)
    say(f"{choice.reference} fits {len(choice.fitting):,} runs:")
    for number, line in enumerate(told_apart(choice.fitting), 1):
        say(f"  {number:>2}  {line}")
    while True:
        answer = str(typer.prompt(f"Which one? 1-{len(choice.fitting)}", default="1", err=True)).strip()
        if answer.isdecimal() and 0 < int(answer) <= len(choice.fitting):
            return choice.fitting[int(answer) - 1].run.id
        say(f"{answer!r} is none of these numbers.")
