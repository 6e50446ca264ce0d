"""Published configurations: applying a paper's profile to an agent's text, and the profile's sampling and scorer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from ragrounds.agents.agent import open_agent, profile_of
from ragrounds.agents.profile import Profile, Setting, read_profile, values
from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse

NO_PROFILE = "no profile"


class PublishedRun(Struct, frozen=True, kw_only=True):
    """A profile's settings apart from its agents: sampling of one model, and the scorer."""

    profile: str
    sampling: Mapping[str, float]
    scorer: str | None
    """Name of the scorer. ``None`` if the paper uses the benchmark's scorer, or one that ragrounds lacks."""

    def words(self) -> str:
        """Return a description: ``the profile medrag sets: temperature=0; scored by mirage``."""
        parts = [", ".join(f"{key}={value:g}" for key, value in self.sampling.items())] if self.sampling else []
        parts += [f"scored by {self.scorer}"] if self.scorer else []
        return f"the profile {self.profile} sets: {'; '.join(parts) or 'neither sampling nor scorer'}"


def apply(agent: str, profile: str, model: str | None = None) -> str:
    """Return the canonical text of an agent as a paper ran it, with the profile's values as explicit parameters.

        apply("i_medrag[rounds=2]", "medrag")    # the value in the text is kept: rounds=2

    Args:
        agent: ``name[key=value,…]``. If it names a profile, that one is used instead.
        profile: A profile's name.
        model: The model's text. Profiles set context sizes by the model.

    Raises:
        UserError: an unknown agent, key or profile (the nearest is suggested), or a graph that the paper does not have.
    """
    read_profile(profile)
    spec = parse(agent)
    with_profile = spec if profile_of(spec) else spec.having(profile=profile)
    return open_agent(with_profile, model=model).spec


def settled(agent: str, profile: str | None, model: str | None) -> str:
    """Return the text of an agent that uses `model`: as :func:`apply` if a profile is given, else unchanged."""
    if profile is not None:
        return apply(agent, profile, model)
    return open_agent(agent, model=model).spec if profile_of(agent) else agent


def published(profile: str, model: str) -> PublishedRun:
    """Return a profile's sampling of a model, and its scorer.

    Args:
        profile: A profile's name.
        model: The model's text, ``provider:name[…]``.

    Raises:
        UserError: an unknown profile. The message suggests the nearest name.
    """
    settings = read_profile(profile)
    scorer = str(settings.scorer.value) if settings.scorer else None
    sampling = {key: float(value) for key, value in values(settings.sampling(model)).items()}
    return PublishedRun(profile=profile, sampling=sampling, scorer=scorer)


def names_agents(profile: str, agents: Sequence[str]) -> None:
    """Check that a profile covers the default agents of a run.

    Args:
        profile: A profile's name.
        agents: Agents as text.

    Raises:
        UserError: an unknown profile, or a paper with other agents. The message lists them.
    """
    graphs = read_profile(profile).graphs
    if not graphs:
        raise UserError(f"The profile {profile!r} is only for retrieval: it runs no agent.")
    if any(open_agent(agent).card.graph not in graphs for agent in agents):
        raise UserError(f"The profile {profile!r} has {', '.join(graphs)}: choose one, --agent {next(iter(graphs))}.")


def sampled(model: str, agents: Sequence[str], profile: str | None, set_names: Collection[str] = ()) -> str:
    """Return a model's text with the sampling parameters of its agents' profiles that it does not set itself.

    Args:
        model: The model's text.
        agents: Agents as text, which use the model.
        profile: Default profile of agents that name none.
        set_names: Parameters that are set elsewhere.

    Raises:
        UserError: the agents' profiles disagree, or only some agents have one.
    """
    spec = parse(model)
    if spec.name.startswith("baseline:"):
        return model
    default = read_profile(profile) if profile else Profile(summary="", paper="")
    profiles = {entry.name: entry for entry in (profile_of(agent) or default for agent in agents)}
    by_name = {
        name: {
            k: v for k, v in values(entry.sampling(model)).items() if k not in spec.parameters and k not in set_names
        }
        for name, entry in profiles.items()
    }
    first = next(iter(by_name.values()), {})
    if any(sampling != first for sampling in by_name.values()):
        texts = {
            name or NO_PROFILE: ", ".join(f"{key}={value}" for key, value in sampling.items())
            for name, sampling in by_name.items()
        }
        ways = "; ".join(f"{name}: {text or 'as the model does by default'}" for name, text in texts.items())
        raise UserError(
            f"The agents' profiles sample {model!r} in different ways: {ways}. Run them separately, or give each its "
            "model: AGENT[model=provider:NAME[temperature=0]]."
        )
    return str(spec.having(**first)) if first else model


def sources(agent: str, profile: str | None, model: str | None = None) -> dict[str, Setting]:
    """Return a profile's settings of an agent, each with its source. Empty without a profile.

    Raises:
        UserError: as :func:`apply`.
    """
    return read_profile(profile).settings(open_agent(agent).card.graph, model) if profile else {}
