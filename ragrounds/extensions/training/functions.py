"""Train pairs of encoders for retrieval, and measure them next to the teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from ragrounds.api.arguments import Arg, takes
from ragrounds.api.execution import Workspace
from ragrounds.api.workspace import Progress, unheard
from ragrounds.base.errors import UserError, one_of
from ragrounds.extensions.training.card import write_pair
from ragrounds.extensions.training.evaluation import PairTable, pair_spec
from ragrounds.extensions.training.evaluation import evaluate as evaluate_pairs
from ragrounds.extensions.training.loop import StageCost, TrainingStep
from ragrounds.extensions.training.material import MaterialCounts
from ragrounds.extensions.training.pipeline import TrainingListeners, TrainingRun
from ragrounds.extensions.training.spec import read_training
from ragrounds.tools.index.collection import write_whole


class TrainedPair(Struct, frozen=True, kw_only=True):
    """Query encoder and document encoder that were trained together."""

    recipe: str
    folder: str
    retriever: str
    """Spec of the retriever that searches with the pair."""
    stages: Mapping[str, StageCost]
    """Cost of each stage."""


class TrainingResult(Struct, frozen=True, kw_only=True):
    """Result of :func:`train`."""

    name: str
    device: str
    counts: MaterialCounts
    """Sizes of the training data."""
    pairs: tuple[TrainedPair, ...]


class TrainingArguments(Workspace, frozen=True):
    """Arguments of `train`: the training file, its recipes, and the folder of the results."""

    file: Annotated[Path, Arg("The training file (TOML): docs/reference/training.md.", option="file")]
    recipes: Annotated[
        Sequence[str], Arg("Only this recipe of the file (repeatable).", option="--recipe", many=True)
    ] = ()
    out: Annotated[Path | None, Arg("Folder of the results. [default: HOME/training/NAME]", short="-o")] = None
    changes: Annotated[
        Sequence[str],
        Arg("Change the file: KEY=VALUE, such as device='\"cuda\"' or seed=1.", option="--set", many=True),
    ] = ()
    progress: Annotated[Progress, Arg("Gets what is prepared and encoded, and how many are done.", option="-")] = (
        unheard
    )
    on_step: Annotated[
        Callable[[TrainingStep], None], Arg("Gets every step of the training, with its loss.", option="-")
    ] = lambda step: None


class EvaluationArguments(TrainingArguments, frozen=True):
    """Arguments of `evaluate`: those of `train`, and the rounds of the speed measurement."""

    rounds: Annotated[int, Arg("Rounds of the measurement of speed; 0: none.", 0)] = 5


@takes(TrainingArguments)
def train(arguments: TrainingArguments) -> TrainingResult:
    """Train the pairs that a file's recipes describe.

    An interrupted training resumes from its last checkpoint, and ends with the same weights.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(arguments)
    pairs = []
    for name in names:
        state = run.recipe(name)
        folder = write_pair(run, name, state)
        stages = {Path(key).name: seconds for key, seconds in run.spent(state).items()}
        pairs.append(TrainedPair(recipe=name, folder=str(folder), retriever=pair_spec(run, state), stages=stages))
    return TrainingResult(
        name=run.training.name, device=run.training.device, counts=run.material.counts, pairs=tuple(pairs)
    )


@takes(EvaluationArguments)
def evaluate(arguments: EvaluationArguments) -> PairTable:
    """Measure trained pairs next to the document encoder with itself.

    The measures are nDCG@10 with paired tests, and queries per second in one run. Pairs that are not trained yet are
    trained first; the table is written to the folder of the pairs.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(arguments)
    states = {name: run.recipe(name) for name in names}
    table = evaluate_pairs(run, states, rounds=arguments.rounds, progress=arguments.progress)
    write_whole(run.out / "table.json", msgspec.json.format(msgspec.json.encode(table), indent=2))
    for name, state in states.items():
        write_pair(run, name, state)
    return table


def _opened(options: TrainingArguments) -> tuple[TrainingRun, list[str]]:
    """Open the training of a file, and return it with the names of its requested recipes.

    Raises:
        UserError: a file that cannot be read or has no recipe, or an unknown recipe.
    """
    training = read_training(options.file, options.changes)
    names = [one_of("--recipe", name, list(training.recipe)) for name in options.recipes or training.recipe]
    if not names:
        raise UserError(f'{str(options.file)!r} has no [recipe]: name stages in order, care = ["align", "joint"].')
    home = options.used_settings.home
    folder = (options.out or home / "training" / training.name).expanduser()
    return TrainingRun(training, folder, home, TrainingListeners(options.progress, options.on_step)), names
