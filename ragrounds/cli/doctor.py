"""`ragrounds doctor`: what works here, what was added from outside, and what a model's server can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from ragrounds.cli import options
from ragrounds.cli.output import print_json

if TYPE_CHECKING:
    from ragrounds.api.doctor import Addition, Diagnosis

app = typer.Typer()


@app.command("doctor")
def doctor_command(
    model: str | None = typer.Option(None, help="Also ask this model's server what it can do: openai:NAME."),
    base_url: str | None = typer.Option(None, help="An OpenAI-compatible server."),
    alias: options.Alias = None,
    as_json: options.AsJson = False,
) -> None:
    """Say where things live, which extras are here, what installed packages add and what of it is broken, and, of a
    model, how it goes on with a text and takes tools.

    With --model the server is asked a few questions of some twenty tokens each.

    Example: ragrounds doctor --model openai:NAME --base-url http://127.0.0.1:8000/v1
    """
    from ragrounds.api.doctor import doctor
    from ragrounds.ui.text import safe

    found = doctor(model, base_url, alias)
    if as_json:
        print_json(found)
    else:
        for line in (*_places(found), *_added(found.additions), *_server(found)):
            typer.echo(safe(line))


def _places(found: Diagnosis) -> Iterator[str]:
    for name in ("ragrounds", "python", "home", "settings", "store"):
        yield f"{name:10} {getattr(found, name)}"
    here = ", ".join(name for name, there in found.extras.items() if there) or "none"
    missing = ", ".join(name for name, there in found.extras.items() if not there) or "none"
    yield f"{'extras':10} here: {here}; not here: {missing} (pip install 'ragrounds[NAME]')"


def _added(additions: tuple[Addition, ...]) -> Iterator[str]:
    broken = sum(bool(one.fault) for one in additions)
    yield f"{'additions':10} {len(additions)} from installed packages" + (f", {broken} broken" if broken else "")
    for one in additions:
        source = f"{one.package} {one.version}".strip()
        yield f"  {one.kind or one.group:13} {one.name}, from {source} ({one.value})"
        if one.fault:
            yield f"    broken: {one.fault}"


def _server(found: Diagnosis) -> Iterator[str]:
    probed = found.model
    if probed is None:
        return
    answers = {True: "yes", False: "no", None: "could not be told"}
    yield f"{'model':10} {probed.spec}"
    yield f"  goes on with its own text by: {probed.continues} ({probed.why})"
    yield f"  stop strings end the text: {answers[probed.stops]}"
    yield f"  says which stop string it was: {answers[probed.names_stop]}"
    yield f"  leaves the stop string in the text: {answers[probed.keeps_stop]}"
    yield f"  takes tools: {answers[probed.tools]}"
