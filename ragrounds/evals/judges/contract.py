"""What a judge is asked to answer: one value for each axis."""

from __future__ import annotations

from msgspec import Struct

TIE = "tie"


class Contract(Struct, frozen=True):
    """A verdict is a JSON object: every axis is a key, and its value is one of `values`."""

    axes: tuple[str, ...]
    values: tuple[str, ...]
    """In the prompt's spelling. For a pair: the two labels and ``tie``; for one answer: the grades."""

    @property
    def example(self) -> str:
        """The form of the object, for the prompt."""
        choices = " or ".join(f'"{value}"' for value in self.values)
        return "{" + ", ".join(f'"{axis}": {choices}' for axis in self.axes) + "}"
