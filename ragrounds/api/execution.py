"""Arguments that public functions share: the folder of runs, and how calls are carried out and limited.

A function's record inherits :class:`Workspace` if the function reads stored runs, :class:`Execution` if it makes calls,
and :class:`ServedExecution` if it also watches for failures and for changed servers.
"""

from __future__ import annotations

from msgspec import Struct

from ragrounds.api import arguments
from ragrounds.api.workspace import chosen_settings
from ragrounds.base.settings import Settings
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.engine.circuit_breaker import FailureLimit, failure_limit


class Workspace(Struct, frozen=True, kw_only=True):
    """Folder of runs and journal, and settings."""

    home: arguments.Home = None
    settings: arguments.OwnSettings = None

    @property
    def used_settings(self) -> Settings:
        """Return the given settings, or else the user's; with `home` as their folder.

        Raises:
            UserError: `settings` are no :class:`Settings`.
        """
        return chosen_settings(self.settings, self.home)


class Execution(Workspace, frozen=True, kw_only=True):
    """Limits of a command, its attempts in flight, and its use of recorded calls."""

    concurrency: arguments.Concurrency = None
    journal: arguments.Journal = "reuse"
    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None

    @property
    def in_flight(self) -> int:
        """Return the number of attempts, judgements or items in flight."""
        return self.concurrency or self.used_settings.concurrency

    @property
    def budget(self) -> Budget:
        """Return the limits on dollars, tokens and seconds."""
        return Budget(cost=self.max_cost, tokens=self.max_total_tokens, seconds=self.max_time)


class ServedExecution(Execution, frozen=True, kw_only=True):
    """Execution of calls to a model's server, which may fail or change."""

    fail_after: arguments.FailAfter = "50%"
    server_changed: arguments.ServerChanged = "stop"

    @property
    def failure_limit(self) -> FailureLimit:
        """Return the largest number of failures.

        Raises:
            UserError: `fail_after` is no share, number or ``never``.
        """
        return failure_limit(self.fail_after)
