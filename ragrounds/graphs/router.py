"""`router`: one of several agents for each question, by a policy that `ragrounds analyse routing --save FILE` learned.

The policy is linear in features that are known before the question is answered: its length, its number of options, its
dataset, language and subject, and its runs of three to five letters by tf-idf. It gives each agent a chance to be
right; the likeliest answers, the cheaper one of equals. With ``worth`` (in the measure of the policy's prices:
dollars, tokens or seconds) a right answer is weighed against the price. The agent's attempt is the one that it makes
alone.

Sees the options: the agent that answers, as it does alone; the policy knows how many there are. Differs: RouteLLM (Ong
et al., 2024) learns from people's preferences, this one from scores of stored runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Context
from ragrounds.base.digests import text_digest
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.records import LEARNED_FROM, Question
from ragrounds.base.specs import Listed
from ragrounds.graphs.shapes import number
from ragrounds.graphs.state import Graph, Runtime, graph_of, word
from ragrounds.graphs.state import State as Shared

AGENTS = ("arms",)
PROMPTS: tuple[str, ...] = ()


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Policy that `analyse routing` has learned."""

    arms: tuple[str, ...]
    """Agents, as they were called."""
    measure: str
    prices: tuple[float, ...]
    """Price of an attempt of each agent, in the measure."""
    names: tuple[str, ...]
    """Datasets, languages and subjects that are features."""
    intercepts: tuple[float, ...]
    known: tuple[tuple[float, ...], ...]
    """Weights of the features: agents × features."""
    pieces: dict[str, tuple[float, ...]]
    """Idf of a run of letters, then its weight for each agent, by run."""
    questions: tuple[str, ...] = ()
    """Ids of the questions from which it was learned."""

    def chances(self, question: Question) -> list[float]:
        """Return the probability that each agent is right, by a linear model.

        Values a little below 0 and above 1 may occur.
        """
        features = question_features(question, self.names)
        counts = {piece: count for piece, count in pieces(question.text).items() if piece in self.pieces}
        values = {piece: (1 + math.log(count)) * self.pieces[piece][0] for piece, count in counts.items()}
        norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
        return [
            start
            + sum(weight * value for weight, value in zip(self.known[arm], features, strict=True))
            + sum(self.pieces[piece][1 + arm] * value for piece, value in values.items()) / norm
            for arm, start in enumerate(self.intercepts)
        ]

    def choose_agent(self, chances: Sequence[float], worth: float) -> int:
        """Return the agent of the highest chance.

        If right answers have a worth, its price in right answers is subtracted.
        """
        gains = [chance - (price / worth if worth else 0.0) for chance, price in zip(chances, self.prices, strict=True)]
        # Gains that are equal up to rounding go to the cheaper agent.
        near = [arm for arm, gain in enumerate(gains) if gain >= max(gains) - 1e-12]
        return min(near, key=lambda arm: self.prices[arm])


class State(Shared, total=False):
    arm: int


def build() -> Graph:
    """Build the graph START → route → answer → END."""
    return graph_of(State, {"route": route, "answer": answer})


async def route(state: State, runtime: Runtime[Context]) -> State:
    """Choose an agent."""
    context = runtime.context
    policy = read_policy(word(context, "policy", ""), word(context, "digest", ""))
    arms = Listed(word(context, "arms", "[]")).items
    if len(arms) != len(policy.arms):
        raise UserError(f"The policy is of {len(policy.arms)} agents, and arms names {len(arms)}.")
    worth = number(context, "worth", 0.0)
    chances = policy.chances(context.question)
    arm = policy.choose_agent(chances, worth)
    if context.question.id in policy.questions:
        context.note(LEARNED_FROM, "the policy was learned from this question")
    context.note("routed", f"{arms[arm]}: " + ", ".join(f"{chance:.3f}" for chance in chances))
    return {"arm": arm}


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Run an attempt of that agent."""
    attempt = await runtime.context.attempt_of("arms", which=state["arm"], epoch=runtime.context.epoch)
    return {"answer": attempt.text, "choice": attempt.choice}


@lru_cache(maxsize=16)
def read_policy(file: str, digest: str) -> Policy:
    """Read a policy's file.

    Raises:
        UserError: the file does not exist, is not a policy, or differs from the policy that the agent was saved with.
    """
    text = read_text(Path(file))
    if text_digest(text) != digest:
        raise UserError(
            f"{file} differs from the policy that the agent was saved with: `ragrounds analyse routing --save`."
        )
    try:
        return msgspec.json.decode(text, type=Policy)
    except msgspec.MsgspecError as error:
        raise UserError(f"{file} is no policy: {error}") from error


def question_features(question: Question, names: Sequence[str]) -> list[float]:
    """Return the features of a question that are known before it is answered: its length, options, question marks, and
    which of the names are its dataset, language or subject.
    """
    group_names = {question.benchmark, question.language, question.group}
    plain = [math.log1p(len(question.text)), float(len(question.options)), float(question.text.count("?"))]
    return plain + [float(name in group_names) for name in names]


def pieces(text: str) -> Counter[str]:
    """Return the runs of three to five letters inside words, which are padded by a blank: scikit-learn's
    ``char_wb``.
    """
    counts: Counter[str] = Counter()
    for plain in text.lower().split():
        padded = f" {plain} "
        for size in range(3, 6):
            counts.update(padded[start : start + size] for start in range(max(1, len(padded) - size + 1)))
            if len(padded) <= size:  # a short word counts once
                break
    return counts
