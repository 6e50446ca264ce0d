"""`ragrounds gate`: decide a release by a policy of rules: GO, NO-GO or UNDECIDED."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.workspace import replaced
from ragrounds.cli import options
from ragrounds.cli.options import grouped
from ragrounds.cli.output import exit_by, print_json, say, tell
from ragrounds.cli.run import RunDisplay
from ragrounds.extensions.gate.functions import GateArguments, gate
from ragrounds.ui.tables.text_tables import results_console

app = typer.Typer()


@app.command("gate")
@grouped
def gate_command(
    policy: Annotated[Path, typer.Argument(metavar="POLICY.toml", help="The rules: docs/how-to/gate.md.")],
    gate_arguments: GateArguments,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file, too.", metavar="FILE")] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="GitHub's Markdown on standard output.")] = False,
    as_json: options.AsJson = False,
    display: options.Display = None,
) -> None:
    """Decide a release by a policy of rules: GO, NO-GO or UNDECIDED.

    Rules are claims in three tiers. A critical rule that fails is NO-GO, all that hold are GO. Supporting rules make a
    NO-GO where more than half of them fail; advisory ones decide nothing. A look after every question is allowed: the
    agents of [run] are asked until the verdict is made. Exit code: 0 GO, 1 NO-GO, 4 UNDECIDED.

    Example:

      ragrounds gate policy.toml --journal replay --junit gate.xml
    """
    arguments = replace(gate_arguments, policy=policy, listener=RunDisplay(display))
    decided = gate(**asdict(arguments))
    if junit is not None:
        with replaced(junit, True) as file:
            file.write(decided.junit().encode())
    if decided.run is not None:
        say(f"{decided.run.made:,} model calls made, {decided.run.reused:,} answered from the journal.")
    if as_json:
        print_json(decided.facts())
    elif as_markdown:
        tell(decided.markdown(), nl=False)
    else:
        decided.draw(results_console())
    exit_by({"GO": "holds", "NO-GO": "fails"}.get(decided.verdict, "undecided"))
