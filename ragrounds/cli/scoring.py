"""`ragrounds score`: score stored runs again, without a model."""

from __future__ import annotations

import typer


def score_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    protocol: list[str] = typer.Option([], help="A protocol (repeatable); by default all that fit the questions."),
    as_json: bool = typer.Option(False, "--json", help="The table as JSON."),
) -> None:
    """Score stored runs again, under one protocol or all of them. No model is asked.

    Example: ragrounds score direct_cot --protocol strict
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.comparison import compare
    from ragrounds.evals.scoring import scorer, scorers_for, suits
    from ragrounds.ui.tables import print_comparison

    wanted = [scorer(name) for name in protocol]
    with open_store(settings()) as store:
        found = [store.run(reference) for reference in runs]
        for run in found:
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            scores = [
                scorer.score(attempt, by_id[attempt.question_id], golds[attempt.question_id])
                for attempt in store.attempts(run)
                for scorer in wanted or scorers_for(by_id[attempt.question_id])
                if suits(scorer, by_id[attempt.question_id])
            ]
            store.add_scores(run, scores)
            say(f"{run.id}: {len(scores):,} scores")
        comparison = compare(store, found)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)
