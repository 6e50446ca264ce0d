"""`self_consistency`: several attempts of one agent, and the answer that most of them give (Wang et al., 2023).

Any agent can be sampled, a user's system too: ``self_consistency[of=./mine.py:graph,samples=5]``. Sample k is
the agent's own attempt of epoch k, so that calls made before are not made again; at temperature 0 all samples
are alike. An answer is what the benchmark's headline scorer reads, of long answers the text; what it cannot read does
not vote. Of answers with equally many votes the earlier one wins.

Sees the options: the agent inside, as it does alone. Differs: the paper samples at a temperature of 0.7; here it is
that of the agent's model. Notice: `no_votes`.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.samples import Samples, attempts, draw, most_frequent
from ragrounds.graphs.shapes import vote
from ragrounds.graphs.state import Graph, Runtime, State

AGENTS = ("of",)
PROMPTS: tuple[str, ...] = ()


def build() -> Graph:
    """Build the graph START → draw, once for each sample → answer → END."""
    return vote(Samples, attempts=attempts, attempt=draw, after=[answer])


async def answer(state: Samples, runtime: Runtime[Context]) -> State:
    """Return the first sample of the most frequent answer."""
    samples = state["drawn"]
    winner, votes = most_frequent(samples)
    if not votes:
        runtime.context.note("no_votes", "no sample can be read; the first is the answer")
    return {"answer": winner.text, "choice": winner.choice}
