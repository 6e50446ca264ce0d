"""A stage's checkpoint: everything that decides what comes next, in one file that is whole or not there."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from ragrounds.errors import UserError
from ragrounds.tools.collection_builder import disk_error

NAME = "checkpoint.pt"


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` with the random generators' states. A kill leaves the one before.

    Raises:
        StopRun: the disk is full.
    """
    import numpy as np
    import torch

    beside = folder / f".{NAME}.part"
    held = {
        **state,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": np.random.get_state(),
    }
    try:
        with beside.open("wb") as file:
            torch.save(held, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NAME)
    except OSError as problem:
        raise disk_error(folder, problem) from None


def load(folder: Path) -> dict[str, Any] | None:
    """Read the checkpoint and set the random generators as they were; ``None``: there is none.

    Raises:
        UserError: it cannot be read.
    """
    import numpy as np
    import torch

    path = folder / NAME
    if not path.is_file():
        return None
    try:
        # It holds the generators' states, which are tuples of Python's own: only files of ours are read here.
        held: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as problem:  # a file that is not one of ours can fail in any way
        raise UserError(
            f"The checkpoint {str(path)!r} cannot be read ({type(problem).__name__}). Remove it, and the stage begins "
            "anew."
        ) from None
    torch.set_rng_state(held.pop("torch"))
    if cuda := held.pop("cuda"):
        torch.cuda.set_rng_state_all(cuda)
    random.setstate(held.pop("python"))
    np.random.set_state(held.pop("numpy"))
    return held


def drop(folder: Path) -> None:
    """Remove it: the stage is done."""
    (folder / NAME).unlink(missing_ok=True)
