"""What became of passages: which later prompts held them, and what a reading node made of them.

Derived from the recorded prompts: a passage is in a prompt where its text stands in a message, whole or, cut to the
model's window, its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.records import Call, Passage
from ragrounds.ui.trace.opened import Opened

_LATER = 40
"""Model calls after a search that are looked at."""
_BEGINNING = 80
"""Characters by which a passage that was cut is known again."""


class Use(Struct, frozen=True):
    """A prompt that held a passage."""

    key: str
    """The call's key in the journal."""
    node: str
    role: str
    whole: bool
    reply: str


def uses(opened: Opened, search: Call, passages: Sequence[Passage]) -> dict[str, list[Use]]:
    """Passage id → the later prompts that held it."""
    found: dict[str, list[Use]] = {passage.id: [] for passage in passages}
    later = [call for _, call in opened.calls()]
    at = next((number for number, call in enumerate(later) if call is search), len(later))
    for call in [call for call in later[at + 1 :] if call.kind == "model"][:_LATER]:
        recorded = opened.recorded(call)
        if recorded.asked is None:
            continue
        prompt = "\n".join(message.content for message in recorded.asked.messages) + recorded.asked.prefix
        reply = recorded.reply.text if recorded.reply else ""
        for passage in passages:
            whole = passage.text in prompt
            if passage.text and (whole or passage.text[:_BEGINNING] in prompt):
                found[passage.id].append(Use(call.key, call.node, call.role, whole, reply))
    return found
