"""`ragrounds train`: train retrievers of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.train import evaluate, table_rows
from ragrounds.api.train import train as train_pairs
from ragrounds.api.workspace import one_of
from ragrounds.cli import options
from ragrounds.cli.output import print_json, tell
from ragrounds.ui.text import safe
from ragrounds.ui.training import print_pairs, training_display

app = typer.Typer()
train = typer.Typer(
    name="train",
    help="Train asymmetric retrievers: a small query encoder for a large document encoder (CARE). Needs "
    "ragrounds[train].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train)

TrainingFile = Annotated[
    Path, typer.Argument(help="The training file (TOML): docs/reference/training.md.", show_default=False)
]
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
    with training_display() as shown:
        result = train_pairs(
            file, recipes=recipe or (), out=out, changes=changes or (), progress=shown.doing, on_step=shown.step
        )
    if as_json:
        print_json(result)
        return
    for pair in result.pairs:
        tell(f"{safe(pair.recipe)}: {safe(pair.folder)}")
        tell(f"  ragrounds retrieve --retriever '{safe(pair.retriever)}' --benchmark …")


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
    known = table_rows(file, recipe or (), changes or ())
    rows = [one_of("--against", name, known) for name in against or known[:1]]
    with training_display() as shown:
        table = evaluate(
            file,
            recipes=recipe or (),
            out=out,
            changes=changes or (),
            rounds=rounds,
            progress=shown.doing,
            on_step=shown.step,
        )
    if as_json:
        print_json(table)
    else:
        print_pairs(table, rows)
