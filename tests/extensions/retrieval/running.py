"""`ragrounds retrieve` as tests call it."""

import typer
from click.testing import Result
from typer.testing import CliRunner

from ragrounds.extensions.retrieval.cli import retrieve

_app = typer.Typer()
_app.command()(retrieve)


def run_retrieve(*arguments) -> Result:
    """Run the command in this process. Its errors are raised."""
    runner = CliRunner(env={"COLUMNS": "120"})
    return runner.invoke(_app, [str(argument) for argument in arguments], catch_exceptions=False)
