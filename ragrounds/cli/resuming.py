"""`ragrounds runs resume`: a run goes on without its command being typed again."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ragrounds.records import Asked, Run

_KEPT = {
    "benchmark": "--benchmark",
    "model": "--model",
    "base_url": "--base-url",
    "corpus": "--corpus",
    "limit": "--limit",
    "per_dataset": "--per-dataset",
    "seed": "--seed",
    "epochs": "--epochs",
    "temperature": "--temperature",
    "top_p": "--top-p",
    "answer_tokens": "--answer-tokens",
    "timeout": "--timeout",
    "concurrency": "--concurrency",
}
"""Options that say what a run is, and how its server is spoken to. Not those of one evening: budgets, displays, where
workers are, when to stop."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


def asked_again(given: Mapping[str, Any]) -> Asked:
    """What is kept of a command's options, so that it can be given again. Nothing that looks like a key is."""
    from ragrounds.models.faults import redacted
    from ragrounds.records import Asked

    options: list[str] = []
    for name, option in _KEPT.items():
        values = given[name]
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                options += [option, redacted(_LOGIN.sub("", str(value)))]
    return Asked(str(Path.cwd()), tuple(options))


def resume_command(
    context: typer.Context,
    run: str = typer.Argument(help="A run: an id, the beginning of one, or an agent's text."),
) -> None:
    """Go on with exactly this run, as it was asked for. Options of `ragrounds run` may follow: --concurrency 64.

    Keys come from the environment, as ever. Where anything that the run's results depend on has changed, it does not go
    on, and the differences are named.
    """
    from ragrounds.cli import app
    from ragrounds.cli.common import open_store, say, settings

    with open_store(settings()) as store:
        found = store.run(run)
    asked = _asked(found)
    if Path(asked.folder).is_dir():
        os.chdir(asked.folder)
    else:
        say(f"{asked.folder}, where this run was begun, is gone: paths are taken from here.")
    options = _merged(asked.options, context.args)
    say(f"ragrounds run {' '.join(map(_quoted, options))}")
    app(["run", *options, "--only-run", found.id])


def _asked(run: Run) -> Asked:
    from ragrounds.errors import UserError

    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nothing to go on with.")
    if run.asked is None:
        raise UserError(
            f"The run {run.id} does not say how it was asked for: an older version made it, or another command. Give "
            "its command again, which goes on with it."
        )
    return run.asked


def _merged(kept: tuple[str, ...], given: list[str]) -> list[str]:
    """The kept options, without those that are given anew."""
    named = {word.partition("=")[0] for word in given if word.startswith("--")}
    pairs = zip(kept[::2], kept[1::2], strict=True)
    return [word for name, value in pairs if name not in named for word in (name, value)] + given


def _quoted(word: str) -> str:
    import shlex

    from ragrounds.ui.text import one_line

    return shlex.quote(one_line(word, 200))
