"""`ragrounds score`: score stored runs again, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragrounds.contracts import Scorer


def score_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    scorer: list[str] = typer.Option([], help="A scorer (repeatable); by default all that fit the questions."),
    embedder: str = typer.Option(
        None, help="Also match the words of long answers by this embedder's vectors: 'dense[model=…]' or a card."
    ),
    trajectory: Path = typer.Option(
        None, help="Also compare each attempt's nodes, tools and queries with this file's: JSON Lines, see docs."
    ),
    as_json: bool = typer.Option(False, "--json", help="The table as JSON."),
) -> None:
    """Score stored runs again, under one scorer or all of them. No model is asked.

    --embedder adds a secondary figure for long answers, greedy matching of their words with the reference's;
    --trajectory whether attempts took the way that was expected.

    Example: ragrounds score direct_cot --scorer strict
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.scorers import find_scorer, scorers_for
    from ragrounds.evals.scorers.trajectory import Trajectory, queries_of, read_expected
    from ragrounds.ui.comparison_tables import print_comparison

    wanted = [find_scorer(name) for name in scorer]
    matching = [_matching(embedder)] if embedder else []
    expected = read_expected(trajectory) if trajectory else None
    with open_store(settings()) as store:
        found = [store.run(reference) for reference in runs]
        ways = [] if expected is None else [Trajectory(expected=expected, query=queries_of(store))]
        for run in found:
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            scores = [
                scorer.score(attempt, by_id[attempt.question_id], golds[attempt.question_id])
                for attempt in store.attempts(run)
                for scorer in [*(wanted or scorers_for(by_id[attempt.question_id])), *matching, *ways]
                if scorer.suits(by_id[attempt.question_id])
            ]
            store.add_scores(run, scores)
            say(f"{run.id}: {len(scores):,} scores")
        comparison = compare(store, found)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)
        present = {table.scorer for table in comparison.tables}
        asked = [one.name for one in (*matching, *ways) if one.name in present]
        if asked:
            print_comparison(comparison, asked)


def _matching(embedder: str) -> Scorer:
    from ragrounds.evals.scorers.greedy_match import GREEDY_MATCH
    from ragrounds.tools.cards import named_embedder

    return GREEDY_MATCH.opened(named_embedder(embedder))
