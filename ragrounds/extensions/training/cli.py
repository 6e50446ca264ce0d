"""`ragrounds train`: train custom retrievers."""

from __future__ import annotations

import typer
from msgspec.structs import asdict, replace

from ragrounds.cli import options
from ragrounds.cli.output import print_json, tell
from ragrounds.extensions.training.display import TrainingDisplay, print_costs, print_pairs
from ragrounds.extensions.training.functions import EvaluationArguments, TrainingArguments, evaluate
from ragrounds.extensions.training.functions import train as train_pairs
from ragrounds.ui.text import safe

app = typer.Typer()
train = typer.Typer(
    name="train",
    help="Train asymmetric retrievers: a small query encoder for a large document encoder (CARE). Needs "
    "ragrounds[train].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(train)


@train.command("care")
@options.grouped
def care_command(arguments: TrainingArguments, as_json: options.AsJson = False) -> None:
    """Train the pairs that the file's recipes describe. Interrupted, the same command resumes from the last checkpoint
    and ends with the same weights. The table shows time, memory and tokens of each stage."""
    training_display = TrainingDisplay()
    result = train_pairs(**asdict(replace(arguments, progress=training_display.doing, on_step=training_display.step)))
    if as_json:
        print_json(result)
        return
    for pair in result.pairs:
        tell(f"{safe(pair.recipe)}: {safe(pair.folder)}")
        tell(f"  ragrounds retrieve --retriever '{safe(pair.retriever)}' --benchmark …")
    print_costs(result)


@train.command("evaluate")
@options.grouped
def evaluate_command(arguments: EvaluationArguments, as_json: options.AsJson = False) -> None:
    """Compare the trained pairs with the document encoder alone: nDCG@10 with paired tests, and queries per
    second in one run. What is not trained yet is trained first."""
    training_display = TrainingDisplay()
    table = evaluate(**asdict(replace(arguments, progress=training_display.doing, on_step=training_display.step)))
    if as_json:
        print_json(table)
    else:
        print_pairs(table)
