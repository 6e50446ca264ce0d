"""`ragrounds publish`: publish a leaderboard of many runs and studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.aliases import parse_names
from ragrounds.cli import options
from ragrounds.cli.options import grouped
from ragrounds.cli.output import counting, print_json, tell
from ragrounds.extensions.publishing.publish import PublishArguments, publish

app = typer.Typer()


@app.command("publish")
@grouped
def publish_command(
    folder: Annotated[
        Path, typer.Argument(help="The folder of pages: made, or replaced where it was published before.")
    ],
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: ids, their beginnings, or agents' texts. [default: all runs and studies]"),
    ] = None,
    names: options.Names = None,
    *,
    arguments: PublishArguments,
    as_json: options.AsJson = False,
) -> None:
    """Publish a leaderboard: a folder of pages that needs no server and loads nothing.

    Runs are ranked against each other only where they answered the same questions, as often, under the same scorer;
    each ranking says why it is separate. The folder also has its comparison, its attempts, and the studies with the
    figures of their papers. The same command replaces all of it or nothing.

    Examples:

      ragrounds publish site

      ragrounds publish site direct_cot 'vanilla_rag[top_k=8]' --study mirage-table6 --title 'Our retrieval'

      ragrounds publish site --bundle
    """
    with counting() as progress:
        publish_arguments = replace(
            arguments,
            runs=runs or (),
            studies=arguments.studies or None,
            names=parse_names(names or ()),
            progress=progress,
        )
        site = publish(**asdict(publish_arguments))
    if as_json:
        print_json(site.facts())
        return
    for line in site.lines():
        tell(line)
