"""The arguments of a run as two records: what is run, and how it is carried out."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from ragrounds.api.servers import ServerChanged
from ragrounds.api.workspace import JournalMode, one_of
from ragrounds.errors import UserError
from ragrounds.evals.engine.circuit_breaker import failure_limit
from ragrounds.evals.engine.question_order import ORDERS

ENGINES = ("local", "ray")
"""Where workers are: on this machine, or on a Ray cluster."""


class RunRequest(Struct, frozen=True, kw_only=True):
    """What is to be run: all of it changes what the results are, or whom they are asked of."""

    benchmark: str = "sample"
    """A benchmark by name, or FAMILY:PATH."""
    agents: tuple[str, ...] = ()
    """Agents as text, ``name[key=value,…]``; none: `SAMPLE_AGENTS` on the sample, ``direct_cot`` elsewhere."""
    profile: str | None = None
    """A paper's profile, for agents that name none themselves: its values stand in their text, its sampling in the
    model's."""
    model: str | None = None
    """For every role that an agent leaves open; ``None``: the settings' model, or the baseline on the sample."""
    base_url: tuple[str, ...] = ()
    """OpenAI-compatible servers that share the calls; none: the settings'."""
    alias: str | None = None
    """A name for the server, or for the group of several, which needs one."""
    corpus: str | None = None
    """What agents search; ``None``: the benchmark's own, where it has one."""
    retriever: str | None = None
    """What agents search with that name no retriever themselves, as if it stood in their text: before a profile."""
    config: object = ()
    """What systems of the user's own are configured with: a mapping, or texts ``KEY=VALUE`` and paths of files."""
    context: object = ()
    """Their runtime context, as `config`."""
    limit: int | None = None
    """Questions in all, drawn by `seed`; ``None``: every one."""
    per_dataset: int | None = None
    """Questions of each dataset, drawn by `seed`."""
    questions: tuple[str, ...] = ()
    """Only these, by id or the end of it."""
    seed: int = 0
    """Of the draw, and of the order under a claim."""
    epochs: int = 1
    """How often each question is asked."""
    temperature: float | None = None
    """Of sampling; here and below ``None`` leaves it to the model's text."""
    top_p: float | None = None
    """Of nucleus sampling."""
    max_answer_tokens: int | None = None
    """Tokens that one answer may have."""
    timeout: float | None = None
    """Seconds that one call may take."""
    rpm: float | None = None
    """Requests a minute to one server, at most."""
    tpm: float | None = None
    """Tokens a minute to one server, in and out, at most."""


class Execution(Struct, frozen=True, kw_only=True):
    """How runs are carried out: speed, limits, when to stop. None of it changes what an answer is."""

    concurrency: int | None = None
    """Attempts in flight; ``None``: the settings'."""
    workers: int | None = None
    """Processes that share the work; ``None``: 1, or one a node of the cluster."""
    engine: str = "local"
    """One of `ENGINES`."""
    max_cost: float | None = None
    """Dollars that this call may spend; what is begun is finished."""
    max_total_tokens: int | None = None
    """Tokens that this call may use, in and out."""
    max_time: float | None = None
    """Seconds that this call may take."""
    fail_after: str | int = "50%"
    """What ends the runs when so many attempts of one of them failed: a share, a number, or ``never``."""
    until: str | None = None
    """A claim that ends the runs when it is decided: ``separated(A, B) @ 95%``."""
    max_questions: int | None = None
    """With `until`: questions to ask at most."""
    order: str | None = None
    """``given``, or ``shared``: questions that share a source follow each other. ``None``: by the models."""
    journal: JournalMode = "reuse"
    """What is done with recorded calls."""
    confirmed: bool = False
    """Nobody is to be asked where a projection is above a threshold of the settings."""
    new: bool = False
    """Begin other runs where there are some of the same identity."""
    server_changed: ServerChanged = "stop"
    """What is done where another server answers at an address than the last time."""
    only: str | None = None
    """The id of the one run that is to be resumed."""
    scorers: tuple[str, ...] = ()
    """Scorers that score too, by name or import path; the first is the headline of the table."""
    pilot_only: bool = False
    """Ask no more than a pilot does, and tell what the rest will take: a study projects all its runs before it goes on
    with any."""


_AT_LEAST = {
    "limit": 1, "per_dataset": 1, "epochs": 1, "max_answer_tokens": 1, "timeout": 0.1, "concurrency": 1, "workers": 1,
    "max_questions": 1, "max_cost": 0, "max_total_tokens": 0, "max_time": 0,
}  # fmt: skip
"""The least value of arguments that are numbers."""


def check_arguments(request: RunRequest, execution: Execution) -> None:
    """Check what can be checked before anything is read.

    Raises:
        UserError: an argument is no number, too small, unknown, or does not go with another.
    """
    for name, least in _AT_LEAST.items():
        value = getattr(request if hasattr(request, name) else execution, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UserError(f"--{name.replace('_', '-')} {value!r} is no number.")
        if value is not None and not value >= least:
            raise UserError(f"--{name.replace('_', '-')} {value:g} is too small; expected {least:g} or more.")
    one_of("--engine", execution.engine, ENGINES)
    one_of("--journal", execution.journal, get_args(JournalMode))
    failure_limit(execution.fail_after)
    if execution.order is not None:
        if execution.until is not None:
            raise UserError("--order cannot be set with --until, which asks in an order drawn by --seed.")
        one_of("--order", execution.order, ORDERS)
