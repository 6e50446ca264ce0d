"""A training that was killed goes on from its checkpoint, and ends with the very same bytes."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from tests.extensions.training.tiny import needs_torch, write_file

needs_torch()

from ragrounds.extensions.training.pipeline import TrainingListeners  # noqa: E402

LORA = {"lora": "lora = {rank = 2, dropout = 0.1}"}
KILLED = """
import os, signal, sys
from pathlib import Path
from ragrounds.extensions.training.pipeline import TrainingListeners, TrainingRun
from ragrounds.extensions.training.spec import read_training

def step(told):
    if (told.stage, told.step) == ("joint", 6):
        os.kill(os.getpid(), signal.SIGKILL)

file, out, home = map(Path, sys.argv[1:])
TrainingRun(read_training(file), out, home, TrainingListeners(step=step)).recipe("both")
"""


def digests(folder):
    """Every file a recipe's stages left, by its place and content. Times of course differ, and so does what
    transformers writes into the tokenizer's settings of how this process opened it (offline or not)."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("stage.json", "building.lock", "tokenizer_config.json")
    }


class Stopped(Exception):
    pass


def stop_at(stage, step):
    def told(at):
        if (at.stage, at.step) == (stage, step):
            raise Stopped

    return TrainingListeners(step=told)


@pytest.mark.weekly
def test_killed_it_ends_with_the_same_weights(opened, tmp_path, world, teacher):
    file = write_file(tmp_path, world, teacher, **LORA)
    out = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), str(out), str(tmp_path / "home")],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    (stage,) = (out / "stages").glob("joint-*")
    assert [path.name for path in stage.iterdir()] == ["checkpoint.pt"]  # of step 4; steps 5 and 6 are lost

    steps = []
    resumed = opened(out="killed", told=TrainingListeners(step=steps.append), **LORA)
    resumed.recipe("both")
    assert [(told.stage, told.step) for told in steps[:2]] == [("joint", 4), ("joint", 5)]
    assert not (stage / "checkpoint.pt").exists()

    opened(out="undisturbed", **LORA).recipe("both")
    assert digests(out / "stages") == digests(tmp_path / "undisturbed" / "stages")


@pytest.mark.parametrize(
    ("recipe", "stage", "step"),
    [("stage-1", "align", 1), ("stage-1", "align", 7), ("distilled", "distil", 3), ("both", "joint", 5)],
)
def test_interrupted_it_ends_with_the_same_weights(opened, tmp_path, recipe, stage, step):
    """Dropout is on: its draws go on where they stopped."""
    lora = LORA if recipe == "both" else {}
    with pytest.raises(Stopped):
        opened(out="stopped", told=stop_at(stage, step), **lora).recipe(recipe)
    resumed = opened(out="stopped", **lora)
    state = resumed.recipe(recipe)
    assert sum(spent.seconds for spent in resumed.spent(state).values()) > 0
    undisturbed = opened(out="undisturbed", **lora)
    whole = undisturbed.spent(undisturbed.recipe(recipe))
    assert digests(tmp_path / "stopped" / "stages") == digests(tmp_path / "undisturbed" / "stages")
    # The tokens of steps that were lost and made again count once.
    assert [cost.tokens for cost in resumed.spent(state).values()] == [cost.tokens for cost in whole.values()]


def test_seeds_decide(opened, tmp_path):
    states = [opened(f"seed={seed}", out=name).recipe("stage-1") for seed, name in ((1, "a"), (1, "b"), (2, "c"))]
    first, again, other = ((Path(state.query) / "model.safetensors").read_bytes() for state in states)
    assert first == again != other


def test_what_is_done_is_not_done_again(opened):
    opened().recipe("both")
    steps = []
    opened(told=TrainingListeners(step=steps.append)).recipe("both")
    assert steps == []


def test_how_often_checkpoints_are_written_changes_nothing(opened):
    assert opened().recipe("stage-1").key == opened("stage.align.checkpoint=1").recipe("stage-1").key
    assert opened().recipe("stage-1").key != opened("stage.align.rate=0.02").recipe("stage-1").key


def test_a_broken_checkpoint_is_said(opened, tmp_path):
    with pytest.raises(Stopped):
        opened(told=stop_at("align", 7)).recipe("stage-1")
    (checkpoint,) = (tmp_path / "out").rglob("checkpoint.pt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(UserError, match=r"checkpoint.*cannot be read.*Remove it"):
        opened().recipe("stage-1")


class Planted:
    """What runs code while it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_checkpoint_that_holds_code_is_refused_and_runs_none(opened, tmp_path):
    import torch

    with pytest.raises(Stopped):
        opened(told=stop_at("align", 7)).recipe("stage-1")
    (checkpoint,) = (tmp_path / "out").rglob("checkpoint.pt")
    held = torch.load(checkpoint, weights_only=True)
    torch.save({**held, "spent": Planted(str(tmp_path / "ran"))}, checkpoint)
    with pytest.raises(UserError, match=r"checkpoint.*contains code.*Remove it"):
        opened().recipe("stage-1")
    assert not (tmp_path / "ran").exists()


def test_two_processes_do_not_train_in_one_folder(opened):
    from ragrounds.tools.index.collection_builder import exclusive_build

    run = opened()
    with exclusive_build(run.out), pytest.raises(UserError, match="Another process"):
        run.recipe("stage-1")
