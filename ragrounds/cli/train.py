"""The display of a training: a bar with the loss on a terminal, a line now and then elsewhere; on standard error.

The table of `ragrounds train evaluate`.

`ragrounds train`: retrievers of one's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragrounds.cli import options
from ragrounds.cli.output import print_json, say

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ragrounds.train.evaluation import PairTable, RetrievalQuality
    from ragrounds.train.loop import TrainingStep
    from ragrounds.train.pipeline import TrainingListeners


_EVERY = 15.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def training_display() -> Iterator[TrainingListeners]:
    """Gives what a run tells."""
    from ragrounds.train.pipeline import TrainingListeners

    if not sys.stderr.isatty():
        lines = _Lines()
        yield TrainingListeners(doing=lines.doing, step=lines.step)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def task(name: str) -> TaskID:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=None, loss="")
            return tasks[name]

        def step(told: TrainingStep) -> None:
            loss = f"loss {told.loss:.4f}" if told.loss is not None else ""
            bar.update(task(told.stage), total=told.steps, completed=told.step, loss=loss)

        yield TrainingListeners(doing=lambda what, done: bar.update(task(what), completed=done), step=step)


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def doing(self, what: str, done: int) -> None:
        self._say(f"{what}: {done:,}", False)

    def step(self, told: TrainingStep) -> None:
        loss = f", loss {told.loss:.4f}" if told.loss is not None else ""
        self._say(f"{told.stage}: step {told.step:,} of {told.steps:,}{loss}", told.step == told.steps)

    def _say(self, line: str, last: bool) -> None:
        from ragrounds.ui.text import safe

        if last or time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            say(safe(line))


def show(table: PairTable, against: Sequence[str]) -> None:
    """Print pairs with their figures, then the comparisons with the rows `against`."""
    from rich.table import Table as Drawn
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
    drawn = Drawn(title=Text(f"{table.name}: nDCG@10 and query encoding"), title_justify="left")
    drawn.add_column("pair", overflow="fold")
    for each in table.quality:
        drawn.add_column(Text(f"{each.benchmark}\n{_note(each)}"), justify="right")
    for heading in (
        "query\nparameters",
        "queries/s\none by one",
        "to the\nteacher",
        "queries/s\nin 32s",
        "training\nminutes",
    ):
        drawn.add_column(heading, justify="right")
    first = table.rows[0].name
    for row in table.rows:
        cells = [
            f"{each.values[row.name]:.4f} ({each.values[row.name] / each.values[first]:.1%})" for each in table.quality
        ]
        speed = row.speed
        drawn.add_row(
            Text(row.name),
            *cells,
            f"{row.query_parameters / 1e6:.1f} M",
            *((f"{speed.single:,.0f}", f"{speed.ratio:.2f}", f"{speed.batched:,.0f}") if speed else ("—", "—", "—")),
            f"{row.seconds / 60:.1f}",
        )
    console.print(drawn)
    if table.rounds:
        console.print(
            f"Queries per second: medians of {table.rounds} rounds, {table.threads} thread(s), encoders in turn; "
            "the ratio is the median of the rounds' ratios, one query at a time."
        )
    for each in table.quality:
        _pairs(console, each, against)


def _note(each: RetrievalQuality) -> str:
    notes = [each.split, f"{each.queries:,} queries"]
    notes += ["selection"] if each.selection else []
    notes += ["transductive"] if each.transductive else []
    notes += [f"{each.queries_trained} queries trained on"] if each.queries_trained else []
    return ", ".join(notes)


def _pairs(console: object, each: RetrievalQuality, against: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    shown = [pair for pair in each.comparisons if pair.first in against or pair.second in against]
    if not shown or not isinstance(console, Console):
        return
    drawn = Drawn(
        title=Text(f"{each.benchmark}, {each.split}: differences of nDCG@10"),
        title_justify="left",
        caption="interval: paired bootstrap, 95 %; p: randomisation test, two-sided; Holm: over all pairs of the table",
        caption_justify="left",
    )
    drawn.add_column("pair", overflow="fold")
    for heading in ("difference", "interval", "p", "Holm", "won", "tied", "lost"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for pair in shown:
        sign, first, second = (1, pair.first, pair.second)
        if pair.first in against and pair.second not in against:
            sign, first, second = (-1, pair.second, pair.first)
        low, high = sorted((sign * pair.low, sign * pair.high))
        won, lost = (pair.wins, pair.losses) if sign == 1 else (pair.losses, pair.wins)
        drawn.add_row(
            Text(f"{first} - {second}"),
            f"{sign * pair.difference:+.4f}",
            f"{low:+.4f} {high:+.4f}",
            f"{pair.p:.4f}",
            f"{pair.holm:.4f}",
            *(str(count) for count in (won, pair.ties, lost)),
        )
    console.print(drawn)


app = typer.Typer()
train = typer.Typer(
    name="train",
    help="Train asymmetric retrievers: a small query encoder for a large document encoder (CARE). Needs "
    "ragrounds[train].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train)

TrainingFile = Annotated[Path, typer.Argument(help="The training file (TOML): docs/training.md.", show_default=False)]
Recipes = Annotated[list[str] | None, typer.Option("--recipe", help="Only this recipe of the file (repeatable).")]
Results = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder of the results. [default: HOME/training/NAME]")
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Change the file: KEY=VALUE, such as device='\"cuda\"' or seed=1.")
]


@train.command("care")
def care_command(
    file: TrainingFile,
    recipe: Recipes = None,
    out: Results = None,
    changes: Changes = None,
    as_json: options.AsJson = False,
) -> None:
    """Train the pairs that the file's recipes describe. Interrupted, the same command resumes from the last checkpoint
    and ends with the same weights."""
    from ragrounds.api.build import train as train_pairs
    from ragrounds.ui.text import safe

    with training_display() as listeners:
        result = train_pairs(file, listeners, recipes=recipe or (), out=out, changes=changes or ())
    if as_json:
        print_json(result)
        return
    for pair in result.pairs:
        typer.echo(f"{safe(pair.recipe)}: {safe(pair.folder)}")
        typer.echo(f"  ragrounds retrieve --retriever '{safe(pair.retriever)}' --benchmark …")


@train.command("evaluate")
def evaluate_command(
    file: TrainingFile,
    recipe: Recipes = None,
    out: Results = None,
    changes: Changes = None,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of the measurement of speed.")] = 5,
    against: Annotated[
        list[str] | None, typer.Option(help="Show comparisons with this row (repeatable). [default: the teacher]")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure the trained pairs beside the document encoder with itself: nDCG@10 with paired tests, and queries per
    second in one run. What is not trained yet is trained first."""
    from ragrounds.api.build import evaluate_training
    from ragrounds.api.workspace import one_of
    from ragrounds.train.spec import TEACHER, read_training

    known = [TEACHER, *(recipe or read_training(file, changes or ()).recipe)]
    rows = [one_of("--against", name, known) for name in against or [TEACHER]]
    with training_display() as listeners:
        table = evaluate_training(file, listeners, recipes=recipe or (), out=out, changes=changes or (), rounds=rounds)
    if as_json:
        print_json(table)
    else:
        show(table, rows)
