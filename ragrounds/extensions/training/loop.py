"""Training loop: batches in the seed's order, AdamW with linear decay, checkpoints that survive a kill.

sentence-transformers' own trainer is not used: its checkpoints are folders that a kill can leave half-written, and it
encodes with both encoders at every step, where Stage I reads a frozen encoder's vectors from disk. A checkpoint here
is one file that is complete or absent, with everything that the following steps depend on.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.extensions.training.libraries import torch
from ragrounds.extensions.training.spec import Stage, Training
from ragrounds.tools.index.collection_builder import disk_error

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class TrainingStep(Struct, frozen=True, kw_only=True):
    """Progress of a stage, for a display."""

    stage: str
    step: int
    steps: int
    loss: float | None
    """Loss of this step, the mean over its batches; ``None`` if nothing was computed yet."""


class StageCost(Struct, frozen=True, kw_only=True):
    """Time, memory, tokens and losses of a stage, over all its interruptions."""

    steps: int
    examples: int
    seconds: float
    """Wall time of training."""
    processor: float
    """Processor time in seconds, of all threads."""
    tokens: int
    """Tokens that went through the trained encoders, without padding."""
    peak: int
    """Largest resident memory of the process, bytes."""
    device_peak: int
    """Largest memory of the GPU, bytes; 0 without a GPU."""
    losses: list[float]
    """Mean loss of each tenth of the steps."""


_SORTED_BATCHES = 50
"""Number of batches among which examples are sorted by length."""

Loss = Callable[[npt.NDArray[np.intp]], "Tensor"]


class Objective(NamedTuple):
    """Loss of a stage, and the lengths of its examples."""

    loss: Loss
    """Function from the positions of a batch's examples to their loss."""
    lengths: Sequence[int]
    """Length of every example, in any unit. Examples of similar length are put in one batch, to reduce padding."""


def train(
    name: str,
    stage: Stage,
    modules: Sequence[Module],
    objective: Objective,
    folder: Path,
    training: Training,
    progress: Callable[[TrainingStep], None] = lambda step: None,
) -> StageCost:
    """Train the parameters in `modules` that require a gradient, from the checkpoint in `folder` if it exists.

    The same seed gives the same weights on the same processor with the same number of threads, interrupted or not.

    Args:
        name: Name for the display.
        stage: Settings.
        modules: Encoders; those of their parameters that require a gradient are trained and checkpointed.
        objective: Loss, and lengths of the examples.
        folder: Folder of the checkpoint.
        training: Seed of the order and of dropout, device and precision.
        progress: Called after every step.
    """
    loss, lengths, seed = objective.loss, objective.lengths, training.seed
    used = min(stage.limit or len(lengths), len(lengths))
    batch = min(stage.batch, used)
    per_epoch = max(used // (batch * stage.accumulate), 1)
    steps = per_epoch * stage.epochs
    example_lengths = np.asarray(lengths)
    parameters = _trainable_parameters(modules)
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=stage.rate, weight_decay=stage.decay, fused=True)
    torch.manual_seed(seed)
    state = load_checkpoint(folder)
    first, losses, spent_before, tokens = 0, [], (0.0, 0.0), 0
    if state is not None:
        with torch.no_grad():
            for key, value in state["weights"].items():
                parameters[key].copy_(value)
        optimizer.load_state_dict(state["optimizer"])
        first, losses, spent_before, tokens = state["step"], state["losses"], state["spent"], state["tokens"]
    for module in modules:
        module.train(stage.dropout)
    began, processor = time.monotonic(), time.process_time()

    def spent() -> tuple[float, float]:
        """Return wall and processor seconds so far, over all interruptions."""
        return spent_before[0] + time.monotonic() - began, spent_before[1] + time.process_time() - processor

    def count_tokens(module: Module, inputs: tuple[Any, ...]) -> None:
        """Add the tokens of a forward pass."""
        nonlocal tokens
        tokens += int(inputs[0]["attention_mask"].sum())

    hooks = [module.register_forward_pre_hook(count_tokens) for module in modules]
    on_gpu = training.device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(training.device)
    progress(TrainingStep(stage=name, step=first, steps=steps, loss=None))
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = stage.rate * _schedule(step, steps, stage.warmup)
        total = 0.0
        for part in _batches(step, per_epoch, batch * stage.accumulate, stage.accumulate, example_lengths, used, seed):
            with autocast(training.device, training.precision):
                value = loss(part) / stage.accumulate
            value.backward()  # type: ignore[no-untyped-call, unused-ignore]
            total += float(value.detach())
        if stage.clip:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), stage.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
        progress(TrainingStep(stage=name, step=step + 1, steps=steps, loss=total))
        if (step + 1) % stage.checkpoint == 0 and step + 1 < steps:
            weights = {key: value.detach() for key, value in parameters.items()}
            checkpoint = {"weights": weights, "optimizer": optimizer.state_dict(), "step": step + 1, "losses": losses}
            save_checkpoint(folder, {**checkpoint, "spent": spent(), "tokens": tokens})
    for hook in hooks:
        hook.remove()
    for module in modules:
        module.eval()
    seconds, processed = spent()
    return StageCost(
        steps=steps,
        examples=steps * batch * stage.accumulate,
        seconds=round(seconds, 3),
        processor=round(processed, 3),
        tokens=tokens,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux reports KiB
        device_peak=torch.cuda.max_memory_allocated(training.device) if on_gpu else 0,
        losses=[round(float(np.mean(part)), 5) for part in np.array_split(losses, min(10, len(losses)))],
    )


def _trainable_parameters(modules: Sequence[Module]) -> dict[str, Any]:
    """Return the trainable parameters by name; a module given twice counts once."""
    parameters: dict[str, Any] = {}
    for number, module in enumerate(modules):
        for key, value in module.named_parameters():
            if value.requires_grad:
                parameters[f"{number}.{key}"] = value
    return parameters


def _batches(
    step: int, per_epoch: int, size: int, parts: int, lengths: npt.NDArray[Any], used: int, seed: int
) -> list[npt.NDArray[np.intp]]:
    """Return the batches of a step, as positions that depend only on the arguments.

    Each epoch has a separate order, and examples that do not fill a batch are left out of it. Within some fifty
    batches, examples of similar length are put in the same batch.
    """
    epoch, within = divmod(step, per_epoch)
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))[:used]
    sorted_in_parts = [
        part[np.argsort(lengths[part], kind="stable")]
        for part in np.split(order, range(size * _SORTED_BATCHES, len(order), size * _SORTED_BATCHES))
    ]
    order = np.concatenate(sorted_in_parts)
    start = int(generator.permutation(per_epoch)[within]) * size
    return np.array_split(order[start : start + size], parts)


def _schedule(step: int, steps: int, warmup: float) -> float:
    """Return the share of the peak rate: up over the warm-up, then linearly down to 0 (Table 17)."""
    rising = max(int(steps * warmup), 1) if warmup else 0
    if step < rising:
        return (step + 1) / rising
    return (steps - step) / max(steps - rising, 1)


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Return the context for forward passes of a precision."""

    if precision == "fp32":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(device.partition(":")[0], dtype=torch.bfloat16)
    return context


CHECKPOINT = "checkpoint.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` with the states of torch's random generators, which alone determine dropout.

    If the process is killed, the previous checkpoint remains.

    Raises:
        StopRun: the disk is full.
    """

    # Written to another file and renamed, so that a kill leaves the previous checkpoint whole.
    temporary = folder / f".{CHECKPOINT}.part"
    checkpoint = {
        **state,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    try:
        with temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / CHECKPOINT)
    except OSError as problem:
        raise disk_error(folder, problem) from None


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """Read the checkpoint and restore the random generators; ``None`` if it does not exist.

    Raises:
        UserError: it cannot be read.
    """

    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    try:
        # No code in the file is run, whoever wrote it: only numbers, texts and tensors are accepted.
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        torch.set_rng_state(checkpoint.pop("torch"))
        if cuda := checkpoint.pop("cuda"):
            torch.cuda.set_rng_state_all(cuda)
    except Exception as problem:  # a file that is not one of ours can fail in any way
        raise UserError(
            f"The checkpoint {str(path)!r} cannot be read ({type(problem).__name__}): it is damaged, or it contains "
            "code. Remove it to restart the stage."
        ) from None
    return checkpoint


def drop_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a finished stage."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
