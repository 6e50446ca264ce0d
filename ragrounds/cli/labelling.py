"""`ragrounds judge agreement` and `judge sheet`: judges set against people, and the sheet that people fill in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragrounds.evals.judges.labels import JudgeAgreement


def sheet_command(
    run: str = typer.Argument(help="A judged run: an id, the beginning of one, or an agent's text."),
    kind: str = typer.Option("equivalence", help="equivalence or statements: what was judged."),
    epoch: int = typer.Option(0, min=0, help="Which of the run's epochs."),
    limit: int = typer.Option(None, min=1, help="Draw so many items. [default: all]"),
    seed: int = typer.Option(0, help="Of the draw and of the order."),
    rater: list[str] = typer.Option([], help="A column for this rater (repeatable). [default: one, `label`]"),
    output: Path = typer.Option(Path("labels.csv"), "--output", "-o", help="The file to write."),
    force: bool = typer.Option(False, "--force", help="Write over a file that is there."),
    as_json: bool = typer.Option(False, "--json", help="Say what was written as JSON."),
) -> None:
    """Write judged answers to a CSV file for people to label, blind to the verdicts; `judge agreement` reads it back.

    Items are drawn and ordered by the seed, a smaller sample is a part of a larger one. No cell is a formula to a
    spreadsheet.

    Example: ragrounds judge sheet direct_cot --limit 50 --rater anna --rater ben
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.cli.writing import replaced
    from ragrounds.evals.judges import labelling
    from ragrounds.evals.judges.sheet import label_sheet

    wanted = labelling(kind)
    with open_store(settings()) as store:
        sheet = label_sheet(
            store, store.run(run), wanted, epoch=epoch, limit=limit, seed=seed, raters=rater or ("label",)
        )
    with replaced(output, force) as file:
        file.write(sheet.csv())
    if as_json:
        print_json({"file": str(output), "items": len(sheet.rows), "of": sheet.of, "labels": wanted.labels})
    say(
        f"{output}: {len(sheet.rows):,} of {sheet.of:,} judged items, without the verdicts. Labels are "
        f"{', '.join(wanted.labels)}. Then: ragrounds judge agreement {run!r} --kind {kind} --human {output}"
        + (f" --epoch {epoch}" if epoch else "")
    )


def agreement_command(
    run: str = typer.Argument(help="A judged run: an id, the beginning of one, or an agent's text."),
    human: Path = typer.Option(..., "--human", help="CSV: a column `item`, and one column of labels a rater."),
    kind: str = typer.Option("equivalence", help="equivalence or statements: whose verdicts are compared."),
    epoch: int = typer.Option(0, min=0, help="Which of the run's epochs."),
    item: str = typer.Option("item", help="The column with the items."),
    rater: list[str] = typer.Option([], help="A rater's column (repeatable). [default: all others]"),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Set the verdicts in the store against people's: Cohen's kappa, accuracy with its interval, confusion. No model is
    asked.

    An item is a question's id; for statements `#1`, `#2`, … follow it, in the benchmark's order, must-have first.

    Example: ragrounds judge agreement direct_cot --human labels.csv
    """
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.judges import labelling, verdicts
    from ragrounds.evals.judges.labels import agreement, read_labels
    from ragrounds.ui.text import one_line

    wanted = labelling(kind)
    labels = read_labels(human, item=item, raters=rater)
    given = {label for row in labels.items.values() for label in row if label}
    unknown = sorted(given - set(wanted.labels))
    if unknown:
        raise UserError(
            f"{human}: the label {one_line(unknown[0])!r} is none of {', '.join(wanted.labels)}. Which columns hold "
            "labels is said with --rater."
        )
    with open_store(settings()) as store:
        said = verdicts(store, store.run(run), wanted, epoch)
    try:
        found = agreement(said, labels)
    except ValueError:
        first = next(iter(said))
        raise UserError(
            f"{human}: none of its items has both a majority of people and a verdict. Items look like {first!r}."
        ) from None
    if as_json:
        print_json(found)
    else:
        _print_agreement(found, len(labels.raters))


def _print_agreement(found: JudgeAgreement, raters: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console
    from ragrounds.ui.text import percent

    judge = found.judge
    accuracy = judge.accuracy
    typer.echo(f"items with both labels: {judge.n:,}")
    typer.echo(f"accuracy: {percent(accuracy.value)} % (95 %: {percent(accuracy.low)} to {percent(accuracy.high)})")
    interval = (
        f" (95 %: {_number(judge.kappa_low)} to {_number(judge.kappa_high)})" if judge.kappa_low is not None else ""
    )
    typer.echo(f"Cohen's kappa: {_number(judge.kappa)}{interval}")
    if raters > 1:
        typer.echo(
            f"{raters} people among themselves: Fleiss' kappa {_number(found.human_kappa)}, "
            f"Krippendorff's alpha {_number(found.human_alpha)}"
        )
    left = {
        "the judge gave no verdict": judge.missing,
        "not judged": found.unmatched,
        "people without a majority": found.undecided,
    }
    for why, count in left.items():
        if count:
            typer.echo(f"left out, {why}: {count:,}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("people \\ judge")
    for name in judge.confusion:
        table.add_column(Text(name), justify="right")
    for name, row in judge.confusion.items():
        table.add_row(Text(name), *(f"{row[other]:,}" for other in judge.confusion))
    results_console().print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
