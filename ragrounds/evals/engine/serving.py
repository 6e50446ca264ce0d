"""Servers for the models of a recipe, where several processes are to share them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from msgspec.structs import replace

from ragrounds.agents.agent import open_agent
from ragrounds.errors import StopRun
from ragrounds.evals.engine.planning import Recipe, model_texts
from ragrounds.models.opening import starts_server


async def with_servers(
    recipe: Recipe, died: Callable[[StopRun], None], *, tell: Callable[[str], None], held: ExitStack
) -> Recipe:
    """The recipe for other processes: servers that its models need are started here, once, and joined there. They are
    stopped when `held` is closed; `died` is called, in another thread, when one ends by itself before that.

    In this process alone there is no need for it: a model starts its server at its first call.

    Raises:
        UserError: a model is not in order, or what serves it is not installed.
        StopRun: a server could not be started.
    """
    if not needs_servers(recipe):
        return recipe
    from ragrounds.models.vllm import give_up, served

    try:
        joined = await asyncio.to_thread(held.enter_context, served(sorted(_texts(recipe)), tell, died))
    except asyncio.CancelledError:
        give_up()
        raise
    return replace(recipe, served=dict(joined))


def needs_servers(recipe: Recipe) -> bool:
    """Whether a model of the recipe would start a server."""
    return any(starts_server(text) for text in _texts(recipe))


def _texts(recipe: Recipe) -> set[str]:
    agents = [open_agent(text) for text in recipe.agents]
    return {text for agent in agents for text in model_texts(agent, recipe.model, recipe.defaults).values()}
