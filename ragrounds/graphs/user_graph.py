"""What the author of a system says of it, above the function that builds it: :class:`About`, as ``@agent(…)``.

The same can stand in an agent's file; without either the usual names are looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

F = TypeVar("F", bound=Callable[..., object])
SUMMARY = "A system of the user's own."
_MARK = "__ragrounds_agent__"


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a system's author says of it; the same fields stand in an agent's file."""

    summary: str = SUMMARY
    searches: bool = False
    question_only: bool = True
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    input: dict[str, str] = field(default_factory=dict)
    """Key of the state, or argument → one of :data:`ragrounds.recorder.answers.FIELDS`."""
    output: str = ""
    """Key of the state that holds the answer: a text, or messages of which the last one counts."""
    nests: bool = True
    """Other graphs run inside its nodes, whose steps are to be seen too. ``False`` saves each attempt a quarter of
    LangGraph's processor time."""

    def __call__(self, build: F) -> F:
        """Attach what is said to the function."""
        setattr(build, _MARK, self)
        return build


agent = About
"""Say what an agent is, above the function that builds its graph: ``@agent(summary="Mine.", searches=True)``."""


def about(made: object) -> About:
    """What was said of an object by ``@agent(…)``, or the defaults."""
    said = getattr(made, _MARK, None)
    return said if isinstance(said, About) else About()
