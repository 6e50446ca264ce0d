"""What it takes to bring the passages of an index of ours into somebody else's (``ragrounds index push``).

An adapter says how by the field ``push`` of its :class:`~ragrounds.tools.retriever.Retriever`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt


class PushRow(NamedTuple):
    """A passage on its way."""

    id: str
    document: str
    title: str
    text: str
    vector: npt.NDArray[np.float32] | None
    """Shape (dimensions,); ``None``: words alone are pushed."""


class PushTarget(ABC):
    """Where passages are pushed to, with blocking calls. Every call may be made again after it failed."""

    name: str
    """The adapter's."""
    spec: str
    """The retriever that searches what was pushed."""
    secrets: Sequence[str] = ()
    """What no error shows."""

    @abstractmethod
    def begin(self, dimensions: int, metric: Literal["ip", "cosine", "l2"]) -> int:
        """Make the table, collection or index where it is not there, with the fields of the spec, and give the number
        of passages that it holds.

        Args:
            dimensions: Of the vectors; 0: words alone are pushed.
            metric: By which the vectors will be searched.

        Raises:
            UserError: what is there has other fields or dimensions; or words alone cannot be pushed.
        """

    @abstractmethod
    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id."""

    @abstractmethod
    def end(self) -> int:
        """Make everything searchable, build what speeds the search up, and give the number of passages held now."""

    @abstractmethod
    def fault(self, error: Exception) -> str:
        """The kind of a client's error, as :class:`ragrounds.tools.external_engine.EngineFault` names them; empty: not
        known, it does not pass."""

    @abstractmethod
    def close(self) -> None:
        """Give back the connections."""
