"""Agents whose model cannot hold the documents that they would show: they are left out, and that is said.

OGCaReBench (Section 4.2) shows 1, 3 or 5 full case reports, cuts them from the end for models with a window of 8k
tokens, and does not test five reports with those models: the last would never be seen. The rule here is the same one
for any corpus and window: an agent is left out where its last document would, by the corpus's mean length, begin behind
the window's end. It goes for ``retriever=parent[…]`` and agents that put `top_k` documents into one prompt;
``parent[fit=cut]`` runs them all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from ragrounds.agents.agent import Agent, open_agent
from ragrounds.contracts import Model
from ragrounds.errors import WindowTooSmall
from ragrounds.evals.engine.context import ANSWER_TOKENS
from ragrounds.evals.engine.plan import Recipe, open_models
from ragrounds.records import Question
from ragrounds.specs import parse
from ragrounds.tools.collection_builder import Progress, open_collection
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.retrievers.parent import fit_of
from ragrounds.tools.whole_documents import drawn_documents, whole_document

_DRAWN = 64
"""Documents, and questions, whose lengths are counted."""


def fitting_agents(
    recipe: Recipe,
    questions: Sequence[Question],
    home: Path,
    *,
    tell: Callable[[str], None],
    progress: Progress | None = None,
) -> Recipe:
    """The recipe without the agents whose documents do not fit; each that is left out is told, with the figures.

    Raises:
        WindowTooSmall: none of its agents is left.
        UserError: as :func:`ragrounds.evals.engine.plan.open_agents`.
    """
    reasons = {text: _too_long(open_agent(text), recipe, questions, home, progress) for text in recipe.agents}
    kept = tuple(text for text in recipe.agents if not reasons[text])
    if not kept:
        raise WindowTooSmall(" ".join(dict.fromkeys(reasons.values())))
    for text in recipe.agents:
        if reasons[text]:
            tell(f"Skipped: {reasons[text]}")
    return recipe if len(kept) == len(recipe.agents) else replace(recipe, agents=kept)


def _too_long(
    agent: Agent, recipe: Recipe, questions: Sequence[Question], home: Path, progress: Progress | None
) -> str:
    """Why an agent is left out, in one sentence; empty: it is not."""
    retriever, corpus = parse(agent.card.retriever), agent.card.corpus or recipe.corpus
    count = agent.parameters.get("top_k")
    # An agent without `context_tokens` shows beginnings of documents, or one search after another.
    shows = "context_tokens" in agent.parameters and "document_characters" not in agent.parameters
    if retriever.name != "parent" or corpus is None or not agent.card.searches or not shows:
        return ""
    if fit_of(retriever) == "cut" or not isinstance(count, int) or count < 2:
        return ""
    model = open_models(agent, recipe.model, {}, recipe.prices, recipe.defaults, recipe.served)["model"]
    room = _room(agent, model, questions)
    if room is None:
        return ""
    mean = mean_length(corpus, home, model.count, progress=progress)
    if (count - 1) * mean < room:
        return ""
    return (
        f"{agent.spec} with {model.spec}: whole documents have {mean:,.0f} tokens on average, and {room:,.0f} tokens "
        f"are left for them, so the last of {count} would not be seen. parent[fit=cut,…] runs it all the same."
    )


def _room(agent: Agent, model: Model, questions: Sequence[Question]) -> float | None:
    """Tokens that are left for documents beside an average question and the answer; ``None``: no known bound."""
    bound = agent.parameters.get("context_tokens")
    rooms = [float(bound)] if isinstance(bound, int) and bound > 0 else []
    if model.window is not None:
        asked = fmean(model.count(question.text) for question in questions[:_DRAWN]) if questions else 0.0
        rooms.append(model.window - ANSWER_TOKENS - asked)
    return min(rooms, default=None)


def mean_length(corpus: str, home: Path, count: Callable[[str], int], *, progress: Progress | None = None) -> float:
    """Mean tokens of a corpus's whole documents, by 64 of each of its parts, which are the same ones every time.

    Args:
        corpus: As :func:`ragrounds.tools.retriever.open_searcher` takes it.
        home: Where indexes are.
        count: Tokens of a text.
        progress: Called while a source is stored for the first time.
    """
    tokens = documents = 0.0
    for name in corpora_of(corpus):
        collection = open_collection(name, home, progress=progress)
        drawn = [whole_document(id, [collection]) for id in drawn_documents(collection, _DRAWN)]
        mean = fmean(count(one.text) for one in drawn if one is not None)
        tokens += mean * collection.manifest.documents
        documents += collection.manifest.documents
    return tokens / documents
