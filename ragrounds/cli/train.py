"""`ragrounds train`: retrievers of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ragrounds.train.pipeline import Listeners, Run
    from ragrounds.train.spec import Training

train_app = typer.Typer(
    name="train",
    help="Train asymmetric retrievers: a small query encoder for a large document encoder (CARE). Needs "
    "ragrounds[train].",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_FILE = Annotated[Path, typer.Argument(help="The training file (TOML): docs/training.md.", show_default=False)]
_RECIPE = Annotated[list[str] | None, typer.Option(help="Only these recipes of the file; by default all.")]
_OUT = Annotated[Path | None, typer.Option(help="Folder of the results; by default HOME/training/NAME.")]
_SET = Annotated[
    list[str] | None, typer.Option("--set", help="Change the file: KEY=VALUE, such as device='\"cuda\"' or seed=1.")
]
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@train_app.command("care")
def care_command(
    file: _FILE, recipe: _RECIPE = None, out: _OUT = None, changes: _SET = None, json: _JSON = False
) -> None:
    """Train the pairs that the file's recipes describe. Interrupted, the same command goes on from the last checkpoint
    and ends with the same weights."""
    from ragrounds.cli.common import print_json
    from ragrounds.cli.train_progress import following
    from ragrounds.train.evaluation import pair_spec
    from ragrounds.train.finishing import write_pair
    from ragrounds.ui.text import safe

    with following() as told:
        run, names = _opened(file, recipe, out, changes, told)
        made: list[dict[str, Any]] = []
        for name in names:
            state = run.recipe(name)
            folder = write_pair(run, name, state)
            made.append(
                {
                    "recipe": name,
                    "folder": str(folder),
                    "retriever": pair_spec(run, state),
                    "stages": {Path(key).name: spent for key, spent in run.spent(state).items()},
                }
            )
    if json:
        print_json({"name": run.training.name, "counts": run.material.counts, "pairs": made})
        return
    for each in made:
        typer.echo(f"{safe(each['recipe'])}: {safe(each['folder'])}")
        typer.echo(f"  ragrounds retrieve --retriever '{safe(each['retriever'])}' --benchmark …")


@train_app.command("evaluate")
def evaluate_command(
    file: _FILE,
    recipe: _RECIPE = None,
    out: _OUT = None,
    changes: _SET = None,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of the measurement of speed.")] = 5,
    against: Annotated[
        list[str] | None, typer.Option(help="Show comparisons with these rows; by default with the teacher.")
    ] = None,
    json: _JSON = False,
) -> None:
    """Measure the trained pairs beside the document encoder with itself: nDCG@10 with paired tests, and queries per
    second in one run. What is not trained yet is trained first."""
    import msgspec

    from ragrounds.cli.common import one_of, print_json
    from ragrounds.cli.train_progress import following
    from ragrounds.cli.train_table import show
    from ragrounds.tools.collection import write_whole
    from ragrounds.train.card import TABLE
    from ragrounds.train.evaluation import evaluate
    from ragrounds.train.finishing import write_pair
    from ragrounds.train.spec import TEACHER

    with following() as told:
        run, names = _opened(file, recipe, out, changes, told)
        known = [TEACHER, *names]
        rows = [one_of("--against", name, known) for name in against or [TEACHER]]
        states = {name: run.recipe(name) for name in names}
        table = evaluate(run, states, rounds=rounds, told=told.doing)
        write_whole(run.out / TABLE, msgspec.json.format(msgspec.json.encode(table), indent=2))
        for name, state in states.items():
            write_pair(run, name, state)
    if json:
        print_json(table)
    else:
        show(table, rows)


def _opened(
    file: Path, recipe: list[str] | None, out: Path | None, changes: list[str] | None, told: Listeners
) -> tuple[Run, list[str]]:
    from ragrounds.cli.common import one_of, settings
    from ragrounds.errors import UserError
    from ragrounds.train.spec import read_training

    training: Training = read_training(file, changes or ())
    names = [one_of("--recipe", name, list(training.recipe)) for name in recipe or training.recipe]
    if not names:
        raise UserError(f'{str(file)!r} has no [recipe]: name stages in order, care = ["align", "joint"].')
    from ragrounds.train.pipeline import Run

    home = settings().home
    return Run(training, (out or home / "training" / training.name).expanduser(), home, told), names
