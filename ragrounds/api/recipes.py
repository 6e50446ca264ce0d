"""Recipes from which the agents of a run are opened: a request, completed by the settings."""

from __future__ import annotations

from ragrounds.agents.profiles import names_agents, sampled, settled
from ragrounds.api.agent_texts import searching_with
from ragrounds.api.run_request import RunArguments
from ragrounds.api.servers import server_defaults
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import Benchmark
from ragrounds.evals.engine.plan import Recipe
from ragrounds.models.prices import read_prices
from ragrounds.models.providers import BASELINE

SAMPLE_AGENTS = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")
"""Agents that are compared on the sample benchmark if none is named."""


def recipe_of(request: RunArguments, loaded: Benchmark, settings: Settings, *, closed: bool = False) -> Recipe:
    """Return the recipe from which a request's agents are opened; the settings complete the request."""
    server = server_defaults(request.base_url, request.alias, settings)
    url = server["base_url"]
    sampling = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_answer_tokens,
    }
    agents = request.agents or (SAMPLE_AGENTS if loaded.is_sample else ("direct_cot",))
    if request.profile is not None and not request.agents:
        names_agents(request.profile, agents)
    if request.retriever is not None:
        agents = searching_with(request.retriever, agents)
    model = request.model or settings.model or (BASELINE if loaded.is_sample and not url else None)
    if model:
        model = sampled(model, agents, request.profile, [key for key, value in sampling.items() if value is not None])
    return Recipe(
        agents=tuple(settled(agent, request.profile, model) for agent in agents),
        model=model,
        corpus=request.corpus or loaded.own_corpus,
        prices=read_prices(settings.home),
        defaults={
            **server,
            **sampling,
            "timeout": request.timeout,
            "rpm": request.rpm,
            "tpm": request.tpm,
            "slots": request.in_flight,
        },
        mcp=settings.mcp,
        closed=closed,
    )
