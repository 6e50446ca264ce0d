"""`ragrounds compare`: runs against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragrounds.evals.compare.assertions import ClaimVerdict
    from ragrounds.evals.compare.comparison import Comparison


def compare_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    scorer: list[str] = typer.Option([], help="A scorer (repeatable). [default: the usual ones]"),
    common: bool = typer.Option(False, "--common", help="Compare on what all runs have, where they differ."),
    group_by: list[str] = typer.Option(
        [], help="Also tables by subject, dataset, kind, language, split or a field of metadata (repeatable)."
    ),
    cost: str = typer.Option(
        "auto", help="What the frontier counts: cost_uncached, cost_paid, tokens, calls, seconds or auto."
    ),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    claims: list[str] = typer.Option(
        [], "--assert", help="A claim to judge: exit code 1 where it fails, 2 where it cannot be told (repeatable)."
    ),
    svg: Path = typer.Option(None, help="Write the cost-accuracy frontier to this file as SVG."),
    as_json: bool = typer.Option(False, "--json", help="Everything as JSON, under every scorer."),
    as_csv: bool = typer.Option(False, "--csv", help="Every figure as a row of one CSV table."),
    as_latex: bool = typer.Option(False, "--latex", help="The tables as LaTeX."),
    as_markdown: bool = typer.Option(False, "--markdown", help="The tables as Markdown."),
) -> None:
    """Accuracy with intervals, outcomes, tokens, cost paid and uncached, seconds; paired differences with their tests;
    the cost-accuracy frontier.

    Runs whose questions, epochs or scorers differ are refused, or compared on what they share with --common.

    Examples:

      ragrounds compare direct_cot 'vanilla_rag[top_k=8]' --group-by subject

      ragrounds compare search_o1 vanilla_rag --assert 'accuracy(search_o1) - accuracy(vanilla_rag) > 0.02 @ 95%'
    """
    from ragrounds.cli.common import open_store, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.compare.assertions import check_claims
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.compare.frontier import cost_measure

    measure = cost_measure(cost)
    formats = {"--json": as_json, "--csv": as_csv, "--latex": as_latex, "--markdown": as_markdown}
    asked = [name for name, given in formats.items() if given]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)} were given; choose one format for standard output.")
    with open_store(settings()) as store:
        found = [store.run(reference) for reference in runs]
        comparison = compare(store, found, scorers=scorer, common=common, seed=seed, cost=measure, group_by=group_by)
        judged = check_claims(
            store, found, claims, scorer=scorer[0] if scorer else None, common=common, seed=seed
        ) if claims else []  # fmt: skip
    if svg:
        _draw(comparison, scorer, svg)
    _print(comparison, scorer, asked[0] if asked else "", judged)
    _settle(judged, quiet=as_json)


def _print(comparison: Comparison, scorers: list[str], form: str, judged: list[ClaimVerdict]) -> None:
    from ragrounds.cli.common import print_json
    from ragrounds.ui.comparison_csv import as_csv
    from ragrounds.ui.comparison_tables import comparison_tables, cost_tables, print_comparison
    from ragrounds.ui.tables import latex, markdown

    if form == "--json":
        import msgspec

        print_json({**msgspec.structs.asdict(comparison), "claims": judged} if judged else comparison)
    elif form == "--csv":
        typer.echo(as_csv(comparison, scorers), nl=False)
    elif form:
        write = latex if form == "--latex" else markdown
        typer.echo(write([*comparison_tables(comparison, scorers), *cost_tables(comparison, scorers)]), nl=False)
    else:
        print_comparison(comparison, scorers, frontier=True)


def _draw(comparison: Comparison, scorers: list[str], path: Path) -> None:
    from ragrounds.cli.common import say
    from ragrounds.errors import UserError
    from ragrounds.ui.chart_svg import svg
    from ragrounds.ui.comparison_tables import agent_names, distinct_tables, numbered
    from ragrounds.ui.frontier import frontier_picture

    for table, _ in distinct_tables(comparison, scorers):
        if table.frontier is not None:
            names = numbered(comparison), agent_names(comparison, 90)
            picture = frontier_picture(table.frontier, table.scorer, *names)
            try:
                path.write_text(svg(picture), encoding="utf-8")
            except OSError as error:
                raise UserError(f"Cannot write {path}: {error.strerror}.") from error
            say(f"{path}: the frontier under {table.scorer}")
            return
    raise UserError(
        "There is no frontier to draw: no run has a known cost above 0. Give prices in prices.toml, or choose what to "
        "count with --cost tokens, calls or seconds."
    )


def _settle(judged: list[ClaimVerdict], quiet: bool) -> None:
    """Say how the claims stand, and exit by it."""
    from ragrounds.cli.common import say
    from ragrounds.evals.compare.claims import all_hold
    from ragrounds.ui.text import safe

    if not judged:
        return
    for claim in [] if quiet else judged:
        say(f"\n{claim.decision}: {safe(claim.claim)}   (accuracy by {claim.scorer})")
        for one in claim.conditions:
            level = f"{100 * one.level:g} % interval" if one.level else "bootstrap 95 %, not asked for"
            if one.value is not None and one.low is not None and one.high is not None:
                say(f"  left - right = {one.value:.6g}, {level} {one.low:.6g} to {one.high:.6g}, n = {one.questions:,}")
            if one.reason:
                say(f"  {one.reason}")
    decision = all_hold([claim.decision for claim in judged])
    if decision != "holds":
        raise typer.Exit(1 if decision == "fails" else 2)
