"""`ragrounds show`: every step of one answer."""

from __future__ import annotations

import typer


def show_command(
    run: str = typer.Argument(help="A run: its id, the beginning of it, or an agent's text."),
    question: str = typer.Argument(help="A question's id, or its end: 12377809 for pubmedqa/12377809."),
    epoch: int = typer.Option(0, min=0, help="Which of the run's epochs."),
    full: bool = typer.Option(False, "--full", help="Long texts whole."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Show every step of one answer: searches, the exact messages, replies, scores.

    Example: ragrounds show 'vanilla_rag[top_k=8]' sample/c01
    """
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.evals.store.traces import trace
    from ragrounds.ui.trace.headless import print_trace

    with open_store(settings()) as store:
        found = trace(store, store.run(run), question, epoch)
    if as_json:
        print_json(found)
    else:
        print_trace(found, full=full)
