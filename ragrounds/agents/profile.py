"""Profiles: values of parameters with which a paper's system runs as its authors ran it.

Each paper has one TOML file in ``published/``. It is data: a value and its source (section, table, or the authors'
code) for each parameter of each graph of the paper, for sampling and context by family of models, and for the scorer. A
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
    """A value with its source in the paper."""

    value: bool | int | float | str
    source: str


class ModelSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A paper's settings for a family of models."""

    names: tuple[str, ...] = ()
    """Parts of a model's name, in lower case. Empty for every model."""
    sampling: dict[str, Setting] = field(default_factory=dict)
    """Parameters of the model: ``temperature``, ``top_p`` …"""
    parameters: dict[str, Setting] = field(default_factory=dict)
    """Parameters of agents, such as ``context_tokens``. They are set if an agent has them."""

    def fits(self, model: str) -> bool:
        """Return True if the settings apply to a model of this text, by its name only."""
        name = model.partition("[")[0].lower()
        return not self.names or any(part in name for part in self.names)


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A paper's settings."""

    name: str = ""
    summary: str
    paper: str
    code: str = ""
    """The authors' public code, with its commit. If empty, there is no public code and only the paper is followed."""
    scorer: Setting | None = None
    """Rule by which the paper counts an answer as correct."""
    graphs: dict[str, dict[str, Setting]] = field(default_factory=dict)
    """Graph → key of an agent's text → value. A graph of the paper without values is listed, too."""
    models: tuple[ModelSettings, ...] = ()
    """Settings by model family. For sampling, and for parameters, the first fitting entry with values counts."""
    open: tuple[str, ...] = ()
    """Known differences from the authors' system, and details that are not public."""

    def settings(self, graph: str, model: str | None = None) -> dict[str, Setting]:
        """Return the settings of an agent of this graph, for this model if one is given.

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
        """Return the sampling parameters of a model."""
        return next((family.sampling for family in self.models if family.fits(model) and family.sampling), {})


def profile_names() -> list[str]:
    """Return the names of the shipped profiles."""
    folder = files("ragrounds.agents").joinpath(_FOLDER)
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


@functools.cache
def read_profile(name: str) -> Profile:
    """Read a profile.

    Raises:
        UserError: the profile does not exist. The message suggests the nearest name.
    """
    if name not in profile_names():
        raise unknown("profile", name, profile_names(), "ragrounds list profiles")
    text = files("ragrounds.agents").joinpath(_FOLDER, f"{name}.toml").read_text(encoding="utf-8")
    return msgspec.structs.replace(msgspec.convert(tomllib.loads(text), Profile), name=name)


def values(settings: Mapping[str, Setting]) -> dict[str, bool | int | float | str]:
    """Return the values without their sources."""
    return {key: setting.value for key, setting in settings.items()}
