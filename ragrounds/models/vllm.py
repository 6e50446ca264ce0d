"""Command that serves a model by vLLM."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from ragrounds.base.errors import UserError
from ragrounds.models.options import ModelOptions
from ragrounds.models.started_server import ServeCommand


def executable() -> str:
    """Return the path of ``vllm``.

    Raises:
        UserError: ``vllm`` is not installed.
    """
    beside = str(Path(sys.executable).parent)  # an environment that was not activated
    program = shutil.which("vllm") or shutil.which("vllm", path=beside)
    if program is None:
        raise UserError(
            "There is no `vllm` on the PATH to serve this model with. Install it where there is a GPU (pip install "
            "'ragrounds[vllm]'), or give a running server with --base-url."
        )
    return program


class VllmCommand(ServeCommand, frozen=True):
    """``vllm serve`` with its arguments. No part of it passes through a shell."""

    software: ClassVar[str] = "vLLM"

    def line(self, port: int) -> list[str]:
        """Return the program and all its arguments."""
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", self.model]
        return [executable(), "serve", self.model, *arguments, *self.arguments]


def vllm_command(options: ModelOptions) -> VllmCommand:
    """Return the command that serves a model. No part of it passes through a shell.

    Raises:
        UserError: `extra` is not a line of arguments.
    """
    engine, weights = options.engine, options.weights
    try:
        extra = shlex.split(weights.extra or "")
    except ValueError as error:
        raise UserError(f"vllm: extra={weights.extra!r} cannot be read as arguments: {error}.") from error
    pairs = [
        ("--revision", weights.revision),
        ("--quantization", weights.quantization),
        ("--dtype", weights.dtype),
        ("--tensor-parallel-size", engine.tensor_parallel),
        ("--max-model-len", engine.max_model_len),
        ("--gpu-memory-utilization", engine.gpu_memory),
        ("--max-num-seqs", engine.max_num_seqs),
    ]
    arguments = [text for option, value in pairs if value is not None for text in (option, str(value))]
    # The server then reports how much of a prompt came from its prefix cache, and the ledger can price it.
    return VllmCommand(options.model, (*arguments, "--enable-prompt-tokens-details", *extra), engine.start_timeout)
