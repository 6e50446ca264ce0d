"""What a foreign system asks today: its first question, with the journal answering what it holds and nothing sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from ragrounds.agents.agent import Agent
from ragrounds.contracts import System
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.drawn_values import drawn_by
from ragrounds.evals.engine.foreign_system import watched_answer
from ragrounds.evals.engine.recording.recorder import AttemptRecorder, ProbedCall
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.recorder.clock import drawing
from ragrounds.records import Question

SECONDS = 60.0
"""After which a probe is broken off: what was seen until then counts."""


async def probe(system: System, agent: Agent, store: Store, question: Question) -> Sequence[ProbedCall]:
    """The model calls that a system makes for a question, in order, up to the first that the journal does not hold.

    Nothing is sent, and nothing is written: no attempt, and no call. What goes wrong inside the system ends the probe.
    """
    journal = StoreJournal(store)
    try:
        context = AttemptContext(
            item=question,
            epoch=0,
            parameters=agent.parameters,
            models={},
            searcher=None,
            prompts=PromptFolder(agent.card.prompts, agent.layout),
            journal=journal,
            limits=agent.caps,
            recorded=agent.card.record,
        )
        drawn = drawn_by(agent, question, 0)
        recorder = AttemptRecorder(context, journal, probe=True)
        with contextlib.suppress(Exception), drawing((await drawn.load(journal)).values if drawn else None):
            async with asyncio.timeout(SECONDS):
                await watched_answer(system, context, recorder, journal)
        return tuple(recorder.probed)
    finally:
        journal.close()
