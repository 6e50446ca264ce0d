"""Retrievers of one's own: pairs of encoders that are trained, and measured beside the teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from ragrounds.api.arguments import Arg, Home, OwnSettings, takes
from ragrounds.api.workspace import Progress, chosen_settings, one_of, unheard
from ragrounds.base.errors import UserError
from ragrounds.extensions.training.card import TABLE, write_pair
from ragrounds.extensions.training.evaluation import PairTable, pair_spec
from ragrounds.extensions.training.evaluation import evaluate as evaluate_pairs
from ragrounds.extensions.training.loop import StageCost, TrainingStep
from ragrounds.extensions.training.material import MaterialCounts
from ragrounds.extensions.training.pipeline import TrainingListeners, TrainingRun
from ragrounds.extensions.training.spec import read_training
from ragrounds.tools.index.collection import write_whole


class TrainedPair(Struct, frozen=True, kw_only=True):
    """A query encoder and a document encoder that were trained together."""

    recipe: str
    folder: str
    retriever: str
    """The spec that searches with them."""
    stages: Mapping[str, StageCost]
    """Stage → what it took."""


class TrainingResult(Struct, frozen=True, kw_only=True):
    """What came of :func:`train`."""

    name: str
    counts: MaterialCounts
    """What the training data came to."""
    pairs: tuple[TrainedPair, ...]


class TrainingArguments(Struct, frozen=True):
    """What is trained, and where its results stand."""

    file: Annotated[Path, Arg("The training file (TOML): docs/reference/training.md.", option="file")]
    recipes: Annotated[
        Sequence[str], Arg("Only this recipe of the file (repeatable).", option="--recipe", many=True)
    ] = ()
    out: Annotated[Path | None, Arg("Folder of the results. [default: HOME/training/NAME]", short="-o")] = None
    changes: Annotated[
        Sequence[str],
        Arg("Change the file: KEY=VALUE, such as device='\"cuda\"' or seed=1.", option="--set", many=True),
    ] = ()
    home: Home = None
    settings: OwnSettings = None
    progress: Annotated[Progress, Arg("Gets what is prepared and encoded, and how many are done.", option="-")] = (
        unheard
    )
    on_step: Annotated[
        Callable[[TrainingStep], None], Arg("Gets every step of the training, with its loss.", option="-")
    ] = lambda step: None


class EvaluationArguments(TrainingArguments, frozen=True):
    """The same, and how it is measured."""

    rounds: Annotated[int, Arg("Rounds of the measurement of speed; 0: none.", 0)] = 5


@takes(TrainingArguments)
def train(given: TrainingArguments) -> TrainingResult:
    """Train the pairs that a file's recipes describe. What was interrupted resumes from its last checkpoint, and ends
    with the same weights.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(given)
    made = []
    for name in names:
        state = run.recipe(name)
        folder = write_pair(run, name, state)
        stages = {Path(key).name: seconds for key, seconds in run.spent(state).items()}
        made.append(TrainedPair(recipe=name, folder=str(folder), retriever=pair_spec(run, state), stages=stages))
    return TrainingResult(name=run.training.name, counts=run.material.counts, pairs=tuple(made))


@takes(EvaluationArguments)
def evaluate(given: EvaluationArguments) -> PairTable:
    """Measure trained pairs beside the document encoder with itself: nDCG@10 with paired tests, and queries per second
    in one run. What is not trained yet is trained first; the table is written beside the pairs.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(given)
    states = {name: run.recipe(name) for name in names}
    table = evaluate_pairs(run, states, rounds=given.rounds, progress=given.progress)
    write_whole(run.out / TABLE, msgspec.json.format(msgspec.json.encode(table), indent=2))
    for name, state in states.items():
        write_pair(run, name, state)
    return table


def _opened(given: TrainingArguments) -> tuple[TrainingRun, list[str]]:
    """A training of a file, and the names of its recipes that are asked for.

    Raises:
        UserError: a file that cannot be read or has no recipe, or an unknown recipe.
    """
    training = read_training(given.file, given.changes)
    names = [one_of("--recipe", name, list(training.recipe)) for name in given.recipes or training.recipe]
    if not names:
        raise UserError(f'{str(given.file)!r} has no [recipe]: name stages in order, care = ["align", "joint"].')
    home = chosen_settings(given.settings, given.home).home
    folder = (given.out or home / "training" / training.name).expanduser()
    return TrainingRun(training, folder, home, TrainingListeners(given.progress, given.on_step)), names
