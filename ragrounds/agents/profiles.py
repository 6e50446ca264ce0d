"""Agents as a paper's authors ran them: a profile put into an agent's text, and what it says beside agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from ragrounds.agents.agent import open_agent, profile_of
from ragrounds.agents.profile import Profile, Setting, profile_names, read_profile, values
from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse

NO_PROFILE = "no profile"


class PublishedRun(Struct, frozen=True, kw_only=True):
    """What a profile says beside its agents: how one model is sampled, and by what answers are scored."""

    profile: str
    sampling: Mapping[str, float]
    scorer: str | None
    """``None``: the paper's own scorer is the benchmark's, or none of ours."""

    def words(self) -> str:
        """In words: ``the profile medrag sets: temperature=0; scored by mirage``."""
        said = [", ".join(f"{key}={value:g}" for key, value in self.sampling.items())] if self.sampling else []
        said += [f"scored by {self.scorer}"] if self.scorer else []
        return f"the profile {self.profile} sets: {'; '.join(said) or 'neither sampling nor scorer'}"


def apply(agent: str, profile: str, model: str | None = None) -> str:
    """The canonical text of an agent as a paper ran it: the profile's values as explicit parameters.

        apply("i_medrag[rounds=2]", "medrag")    # what the text says itself stays: rounds=2

    Args:
        agent: ``name[key=value,…]``. A profile that it names itself stays, and this one is not applied.
        profile: A profile's name.
        model: The model's text; profiles set contexts by the model.

    Raises:
        UserError: an unknown agent, key or profile (the nearest is named), or a graph that the paper does not have.
    """
    read_profile(profile)
    spec = parse(agent)
    named = spec if profile_of(spec) else spec.having(profile=profile)
    return open_agent(named, model=model).spec


def settled(agent: str, profile: str | None, model: str | None) -> str:
    """The text of an agent that is asked with `model`: as :func:`apply` where there is a profile, else as it is."""
    if profile is not None:
        return apply(agent, profile, model)
    return open_agent(agent, model=model).spec if profile_of(agent) else agent


def published(profile: str, model: str) -> PublishedRun:
    """How a profile samples a model, and by what it scores.

    Args:
        profile: A profile's name.
        model: The model's text, ``provider:name[…]``.

    Raises:
        UserError: an unknown profile; the nearest is named.
    """
    found = read_profile(profile)
    scorer = str(found.scorer.value) if found.scorer else None
    sampling = {key: float(value) for key, value in values(found.sampling(model)).items()}
    return PublishedRun(profile=profile, sampling=sampling, scorer=scorer)


def names_agents(profile: str, agents: Sequence[str]) -> None:
    """See that a profile says something of the agents that run where none was named.

    Args:
        profile: A profile's name.
        agents: Agents as text.

    Raises:
        UserError: an unknown profile; or its paper ran other agents, which are named.
    """
    graphs = read_profile(profile).graphs
    if not graphs:
        raise UserError(f"The profile {profile!r} is only for retrieval: it runs no agent.")
    if any(open_agent(agent).card.graph not in graphs for agent in agents):
        raise UserError(f"The profile {profile!r} has {', '.join(graphs)}: choose one, --agent {next(iter(graphs))}.")


def all_profiles() -> list[Profile]:
    """The profiles that ship, by name."""
    return [read_profile(name) for name in profile_names()]


def sampled(model: str, agents: Sequence[str], profile: str | None, given: Collection[str] = ()) -> str:
    """A model's text with what it leaves open of the sampling that its agents' profiles say.

    Args:
        model: The model's text.
        agents: Agents as text, which are asked with it.
        profile: The profile of those that name none themselves.
        given: Parameters that somebody else sets.

    Raises:
        UserError: their profiles do not agree, or only some of them have one.
    """
    spec = parse(model)
    if spec.name.startswith("baseline:"):
        return model
    named = {one.name: one for one in (_profile(agent, profile) for agent in agents)}
    each = {
        name: {k: v for k, v in values(one.sampling(model)).items() if k not in spec.parameters and k not in given}
        for name, one in named.items()
    }
    first = next(iter(each.values()), {})
    if any(sampling != first for sampling in each.values()):
        raise UserError(
            f"The agents' profiles sample {model!r} in different ways: "
            f"{'; '.join(f'{name or NO_PROFILE}: {_said(sampling)}' for name, sampling in each.items())}. Run them "
            "separately, or give each its model: AGENT[model=provider:NAME[temperature=0]]."
        )
    return str(spec.having(**first)) if first else model


def _profile(agent: str, profile: str | None) -> Profile:
    return profile_of(agent) or (read_profile(profile) if profile else Profile(summary="", paper=""))


def sources(agent: str, profile: str | None, model: str | None = None) -> dict[str, Setting]:
    """What a profile sets of an agent, each with its source; no profile: nothing.

    Raises:
        UserError: as :func:`apply`.
    """
    return read_profile(profile).settings(open_agent(agent).card.graph, model) if profile else {}


def _said(sampling: Mapping[str, bool | int | float | str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sampling.items()) or "as the model does by default"
