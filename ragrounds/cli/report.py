"""`ragrounds report`: one HTML file to send to others."""

from __future__ import annotations

from pathlib import Path

import typer


def report_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    out: Path = typer.Option(Path("report.html"), "--out", "-o", help="The file to write."),
    title: str = typer.Option("", help="Title of the page."),
    scorer: list[str] = typer.Option([], help="A scorer (repeatable). [default: the usual ones]"),
    common: bool = typer.Option(False, "--common", help="Compare on what all runs have, where they differ."),
    group_by: list[str] = typer.Option([], help="Also tables by subject, dataset, … as in `ragrounds compare`."),
    cost: str = typer.Option(
        "auto", help="What the frontier counts: cost_uncached, cost_paid, tokens, calls, seconds or auto."
    ),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    attempts: bool = typer.Option(True, help="Put every attempt with its steps into the file."),
    analysis: list[str] = typer.Option([], help="Also this analysis, as in `ragrounds analyse` (repeatable)."),
    human: Path = typer.Option(None, help="People's labels of judged answers (`ragrounds judge sheet`)."),
    force: bool = typer.Option(False, "--force", help="Write over a file that is there."),
) -> None:
    """Write one self-contained HTML file: summary, cost-accuracy frontier, tables, analyses, judges,
    arenas, outcomes, methods, fingerprints, and a browser of all attempts. It asks nothing of any network.

    Example: ragrounds report direct_cot 'vanilla_rag[top_k=8]' --out report.html
    """
    from ragrounds.api.files import replaced
    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.cli.progress import counting
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.compare.frontier import cost_measure
    from ragrounds.evals.judges.labels import read_labels
    from ragrounds.ui.report.page import report_page

    measure = cost_measure(cost)
    labels = read_labels(human) if human else None
    with open_store(settings()) as store, replaced(out, force) as file, counting() as told:
        found = [store.run(reference) for reference in runs]
        comparison = compare(store, found, scorers=scorer, common=common, seed=seed, cost=measure, group_by=group_by)
        for part in report_page(
            store,
            found,
            comparison,
            title=title,
            scorers=scorer,
            attempts=attempts,
            analyses=analysis,
            human=labels,
            seed=seed,
            on_progress=lambda done: told("attempts", done),
        ):
            file.write(part.encode("utf-8", "replace"))
    say(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
