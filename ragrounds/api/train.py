"""Retrievers of one's own: pairs of encoders that are trained, and measured beside the teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.api.workspace import Progress, chosen_settings, one_of, unheard
from ragrounds.errors import UserError
from ragrounds.settings import Settings
from ragrounds.tools.collection import write_whole
from ragrounds.train.card import TABLE, write_pair
from ragrounds.train.evaluation import PairTable, pair_spec
from ragrounds.train.evaluation import evaluate as evaluate_pairs
from ragrounds.train.loop import StageCost, TrainingStep
from ragrounds.train.material import MaterialCounts
from ragrounds.train.pipeline import TrainingListeners, TrainingRun
from ragrounds.train.spec import TEACHER, read_training


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


def train(
    file: Path,
    *,
    recipes: Sequence[str] = (),
    out: Path | None = None,
    changes: Sequence[str] = (),
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress = unheard,
    on_step: Callable[[TrainingStep], None] = lambda step: None,
) -> TrainingResult:
    """Train the pairs that a file's recipes describe. What was interrupted resumes from its last checkpoint, and ends
    with the same weights.

    Args:
        file: the training, in TOML.
        recipes: only these; none: all.
        out: the folder of the results; ``None``: under the home folder.
        changes: ``KEY=VALUE`` over the file.
        home, settings: the folder of models, indexes and results, and all settings; ``None``: the user's.
        progress: is told what is prepared and encoded, and how many are done.
        on_step: is told every step of the training, with its loss.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(file, recipes, out, changes, chosen_settings(settings, home).home, progress, on_step)
    made = []
    for name in names:
        state = run.recipe(name)
        folder = write_pair(run, name, state)
        stages = {Path(key).name: seconds for key, seconds in run.spent(state).items()}
        made.append(TrainedPair(recipe=name, folder=str(folder), retriever=pair_spec(run, state), stages=stages))
    return TrainingResult(name=run.training.name, counts=run.material.counts, pairs=tuple(made))


def evaluate(
    file: Path,
    *,
    recipes: Sequence[str] = (),
    out: Path | None = None,
    changes: Sequence[str] = (),
    rounds: int = 5,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress = unheard,
    on_step: Callable[[TrainingStep], None] = lambda step: None,
) -> PairTable:
    """Measure trained pairs beside the document encoder with itself: nDCG@10 with paired tests, and queries per second
    in one run of `rounds` rounds. What is not trained yet is trained first; the table is written beside the pairs.

    Args:
        file, recipes, out, changes, home, settings, progress, on_step: as for :func:`train`.
        rounds: of the measurement of speed; 0: none.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    run, names = _opened(file, recipes, out, changes, chosen_settings(settings, home).home, progress, on_step)
    states = {name: run.recipe(name) for name in names}
    table = evaluate_pairs(run, states, rounds=rounds, progress=progress)
    write_whole(run.out / TABLE, msgspec.json.format(msgspec.json.encode(table), indent=2))
    for name, state in states.items():
        write_pair(run, name, state)
    return table


def table_rows(file: Path, recipes: Sequence[str] = (), changes: Sequence[str] = ()) -> list[str]:
    """The names of the rows that :func:`evaluate` gives a table of: the teacher, then the recipes.

    Raises:
        UserError: a file that cannot be read.
    """
    return [TEACHER, *(recipes or read_training(file, changes).recipe)]


def _opened(
    file: Path,
    recipes: Sequence[str],
    out: Path | None,
    changes: Sequence[str],
    home: Path,
    progress: Progress,
    on_step: Callable[[TrainingStep], None],
) -> tuple[TrainingRun, list[str]]:
    """A training of a file, and the names of its recipes that are asked for.

    Raises:
        UserError: a file that cannot be read or has no recipe, or an unknown recipe.
    """
    training = read_training(file, changes)
    names = [one_of("--recipe", name, list(training.recipe)) for name in recipes or training.recipe]
    if not names:
        raise UserError(f'{str(file)!r} has no [recipe]: name stages in order, care = ["align", "joint"].')
    folder = (out or home / "training" / training.name).expanduser()
    return TrainingRun(training, folder, home, TrainingListeners(progress, on_step)), names
