"""`ragrounds build`: benchmarks made from one's own reports, queries and corpora."""

from __future__ import annotations

import typer

from ragrounds.cli.build_cases import case_questions
from ragrounds.cli.build_labels import consensus_labels
from ragrounds.cli.build_mining import relevance_mining
from ragrounds.cli.build_missing import false_negatives

build_app = typer.Typer(
    help="Make a benchmark: pipelines of the papers as LangGraph graphs, journaled, priced, resumable, traced.\n\n"
    "Each ends in a folder that `ragrounds data add` takes and `ragrounds run` or `ragrounds retrieve` replays, with "
    "card.json (how it was made) and rejected.jsonl (what was not kept, and why).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

build_app.command("case-questions")(case_questions)
build_app.command("relevance-mining")(relevance_mining)
build_app.command("consensus-labels")(consensus_labels)
build_app.command("false-negatives")(false_negatives)
