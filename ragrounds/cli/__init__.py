"""The command line: it parses, calls, prints. Heavy imports stand inside the commands, so that `--help` is quick."""

from __future__ import annotations

import sys

import typer

from ragrounds import __version__
from ragrounds.cli.agents import agents_command, graph_app
from ragrounds.cli.analyse import analyse_command
from ragrounds.cli.arena import arena_app
from ragrounds.cli.build import build_app
from ragrounds.cli.compare import compare_command
from ragrounds.cli.data import data_app
from ragrounds.cli.doctor import doctor_command
from ragrounds.cli.exchange import export_app, import_app
from ragrounds.cli.index import index_app
from ragrounds.cli.judge import judge_app
from ragrounds.cli.ledger import ledger_command
from ragrounds.cli.report import report_command
from ragrounds.cli.retrieve import retrieve
from ragrounds.cli.retrievers import retrievers_command
from ragrounds.cli.run import run_command
from ragrounds.cli.runs import runs_app
from ragrounds.cli.score import score_command
from ragrounds.cli.trace import show_command, trace_command
from ragrounds.cli.train import train_app
from ragrounds.errors import UserError

app = typer.Typer(
    name="ragrounds",
    help="Replay medical benchmark questions through LangGraph agents, keep every step, compare strategies on "
    "accuracy and cost.\n\nStart with `ragrounds run`: it needs no key and no network.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done; 1 an --assert does not hold; 2 bad input, a wrong key, or no answer possible; "
    "3 done, but some attempts failed; 130 interrupted (the same command goes on).",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ragrounds {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


app.command("run")(run_command)
app.add_typer(import_app, name="import")
app.command("compare")(compare_command)
app.command("ledger")(ledger_command)
app.command("analyse")(analyse_command)
app.command("report")(report_command)
app.add_typer(export_app, name="export")
app.add_typer(arena_app, name="arena")
app.add_typer(build_app, name="build")
app.command("score")(score_command)
app.add_typer(judge_app, name="judge")
app.command("show")(show_command)
app.command("trace")(trace_command)
app.add_typer(runs_app, name="runs")
app.command("agents")(agents_command)
app.command("doctor")(doctor_command)
app.add_typer(graph_app, name="graph")
app.add_typer(data_app, name="data")
app.add_typer(index_app, name="index")
app.command("retrieve")(retrieve)
app.command("retrievers")(retrievers_command)
app.add_typer(train_app, name="train")


def main() -> None:
    """The console script. Typer itself ends usage errors with 2 and Ctrl-C with 130."""
    try:
        app()
    except UserError as error:
        _say(str(error))
        sys.exit(130 if type(error).__name__ == "Interrupted" else 2)
    except BrokenPipeError:
        # The reader of our output left (`| head`): no reason to complain.
        sys.stderr.close()
        sys.exit(141)


def _say(message: str) -> None:
    from ragrounds.ui.text import safe

    typer.echo(f"ragrounds: {' '.join(safe(message).split())}", err=True)
