"""`ragrounds publish`: publish a leaderboard of many runs and studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.aliases import parse_names
from ragrounds.api.publish import publish
from ragrounds.cli import options
from ragrounds.cli.output import counting, print_json, tell

app = typer.Typer()


@app.command("publish")
def publish_command(
    folder: Annotated[
        Path, typer.Argument(help="The folder of pages: made, or replaced where it was published before.")
    ],
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: ids, their beginnings, or agents' texts. [default: all runs and studies]"),
    ] = None,
    study: Annotated[
        list[str] | None, typer.Option(help="A study: a file, or a name of `ragrounds study ls` (repeatable).")
    ] = None,
    attempts: Annotated[
        str,
        typer.Option(
            metavar="licensed|all|never",
            help="Show questions and answers where the licence of the benchmark's card lets anybody give them on (of "
            "others digests and scores), all of them, or no attempts.",
        ),
    ] = "licensed",
    title: Annotated[str, typer.Option(help="Of the leaderboard.")] = "Leaderboard",
    names: options.Names = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Publish a leaderboard: a folder of pages that needs no server and asks nothing of any network.

    Runs are ranked against each other only where they answered the same questions, as often, under the same scorer;
    each ranking says why it stands apart. Beside it stand its comparison, its attempts, the studies with the figures
    of their papers, and leaderboard.json for other tools. The same command replaces it: all of it or nothing.

    Examples:

      ragrounds publish site

      ragrounds publish site direct_cot 'vanilla_rag[top_k=8]' --study mirage-table6 --title 'Our retrieval'

      ragrounds publish site --attempts never
    """
    with counting() as progress:
        made = publish(
            folder,
            runs or (),
            studies=study,
            title=title,
            attempts=attempts,
            names=parse_names(names or ()),
            seed=seed,
            force=force,
            progress=progress,
        )
    if as_json:
        print_json(made.facts())
        return
    for line in made.lines():
        tell(line)
