"""Description of a system by its author, above the function that builds it: :class:`About`, as ``@agent(…)``.

The same can be in an agent's file. Without either the usual names are looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

F = TypeVar("F", bound=Callable[..., object])
SUMMARY = "A system of the user's own."
_MARK = "__ragrounds_agent__"


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a system by its author. The same fields are in an agent's file."""

    summary: str = SUMMARY
    searches: bool = False
    question_only: bool = True
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    input: dict[str, str] = field(default_factory=dict)
    """Field of :data:`ragrounds.recorder.answers.FIELDS`, by key of the state or by argument."""
    output: str = ""
    """Key of the state that holds the answer: a text, or messages of which the last one counts."""
    nests: bool = True
    """True if other graphs run inside its nodes, whose steps are to be visible too.

    ``False`` saves each attempt a quarter of LangGraph's processor time.
    """

    def __call__(self, build: F) -> F:
        """Attach the description to the function."""
        setattr(build, _MARK, self)
        return build


agent = About
"""Decorator that describes an agent, above the function that builds its graph: ``@agent(summary="Mine.",
searches=True)``.
"""


def about(target: object) -> About:
    """Return the description of an object by ``@agent(…)``, or the defaults."""
    details = getattr(target, _MARK, None)
    return details if isinstance(details, About) else About()
