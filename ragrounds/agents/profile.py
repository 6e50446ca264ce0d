"""A profile: which values the switches get so that a paper's system runs as its authors ran it.

One TOML file a paper in ``published/``. It is data: a value and its source (section, table, or the authors' code) for
each parameter of each graph that the paper has, for sampling and context by family of models, and for the scorer. A
profile changes no code: :func:`ragrounds.agents.agent.open_agent` writes its values into the agent's canonical text.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib.resources import files

import msgspec
from msgspec import Struct, field

from ragrounds.base.errors import UserError, unknown

_FOLDER = "published"


class Setting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value, and where it stands."""

    value: bool | int | float | str
    source: str


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a paper says for a family of models."""

    names: tuple[str, ...] = ()
    """Parts of a model's name, in lower case; none: every model."""
    sampling: dict[str, Setting] = field(default_factory=dict)
    """Parameters of the model: ``temperature``, ``top_p`` …"""
    parameters: dict[str, Setting] = field(default_factory=dict)
    """Parameters of agents, as ``context_tokens``: they are set where an agent has them."""

    def fits(self, model: str) -> bool:
        """Whether it is for a model of this text, by its name alone."""
        name = model.partition("[")[0].lower()
        return not self.names or any(part in name for part in self.names)


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A paper's settings."""

    name: str = ""
    summary: str
    paper: str
    code: str = ""
    """The authors' public code, with its commit; empty: there is none, and the paper alone is followed."""
    scorer: Setting | None = None
    """By what the paper counts an answer as right."""
    graphs: dict[str, dict[str, Setting]] = field(default_factory=dict)
    """Graph → key of an agent's text → value. A graph without values stands here too: the paper has it."""
    models: tuple[ModelSettings, ...] = ()
    """Of sampling, and of parameters, the first that fits and says something counts."""
    open: tuple[str, ...] = ()
    """What is known to be another way than the authors', or is not public."""

    def settings(self, graph: str, model: str | None = None) -> dict[str, Setting]:
        """What an agent of this graph is set to, with this model if one is named.

        Raises:
            UserError: the paper has no such graph.
        """
        if graph not in self.graphs:
            raise UserError(
                f"The profile {self.name!r} has no settings for the graph {graph!r}, only for: "
                f"{', '.join(self.graphs) or 'none'}. Leave the profile out for this agent."
            )
        fitting = (family.parameters for family in self.models if model and family.fits(model) and family.parameters)
        return {**self.graphs[graph], **next(fitting, {})}

    def sampling(self, model: str) -> dict[str, Setting]:
        """How a model is sampled."""
        return next((family.sampling for family in self.models if family.fits(model) and family.sampling), {})


def profile_names() -> list[str]:
    """The profiles that ship."""
    folder = files("ragrounds.agents").joinpath(_FOLDER)
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


@functools.cache
def read_profile(name: str) -> Profile:
    """Read a profile.

    Raises:
        UserError: there is none of that name; the nearest is named.
    """
    if name not in profile_names():
        raise unknown("profile", name, profile_names(), "ragrounds list profiles")
    text = files("ragrounds.agents").joinpath(_FOLDER, f"{name}.toml").read_text(encoding="utf-8")
    return msgspec.structs.replace(msgspec.convert(tomllib.loads(text), Profile), name=name)


def values(settings: Mapping[str, Setting]) -> dict[str, bool | int | float | str]:
    """The values without their sources."""
    return {key: setting.value for key, setting in settings.items()}
