"""`ragrounds verify`: derive the figures of a published bundle again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.cli import options
from ragrounds.cli.output import counting, exit_by, print_json
from ragrounds.extensions.publishing.verify import verify
from ragrounds.ui.tables.text_tables import results_console

app = typer.Typer()


@app.command("verify")
def verify_command(
    bundle: Annotated[Path, typer.Argument(help="A file of `ragrounds publish --bundle`.")],
    benchmark: Annotated[
        str | None,
        typer.Option(help="The benchmark, or its file: fills the texts that the bundle withholds, and is compared."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="The published leaderboard. [default: index.html next to the bundle]", metavar="FILE"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Derive every figure of a bundle again from its attempts, and name the first that differs.

    Answers are scored anew, costs and tokens summed anew, and the comparison, its intervals and tests made anew; the
    digits that its tables and the published page print are compared with these. No model is asked, and the store is
    left alone. Exit codes: 1 something differs; 4 something could not be derived.

    Examples:

      ragrounds verify results.bundle.jsonl

      ragrounds verify results.bundle.jsonl --benchmark mirage:benchmark.json
    """
    with counting() as progress:
        verified = verify(bundle, benchmark, page=page, progress=progress)
    if as_json:
        print_json({name: getattr(verified, name) for name in verified.__struct_fields__ if name != "comparison"})
    else:
        verified.draw(results_console())
    exit_by(verified.ended)
