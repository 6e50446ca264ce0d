"""Shared parts of strategies with several voices: how a voice is asked, and how the choices of several are counted.

A prompt of theirs is an instruction alone. Its subject follows in parts under headings: the texts of others, cut
on the left if the window is small, then the question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.base.text import wellformed
from ragrounds.graphs.answer_prompts import answer_prompt, options_block
from ragrounds.graphs.model_text import ending, without_thought
from ragrounds.graphs.shapes import ask_object, read_object


async def say(
    context: Context,
    brief: str,
    about: Literal["stem", "question", "answer"],
    written: Mapping[str, str] = MappingProxyType({}),
    *,
    chat: list[Message] | None = None,
    fields: Mapping[str, object] | None = None,
    **values: str,
) -> str:
    """Return the reply of a voice.

    Args:
        context: the attempt.
        brief: prompt with the instruction; empty for the prompt of the answer alone.
        about: the question's stem; the question with its options; or the prompt that asks for the answer in its form.
        written: texts of others by heading.
        chat: the voice's earlier prompts and replies, which it sees again; this prompt and its reply are added.
            ``None``: a voice without memory.
        fields: as :func:`ragrounds.graphs.shapes.ask_object`, for a reply that is a JSON object.
        values: values of the prompt.
    """
    instruction = context.prompts.text(brief, context.stem.language, **values) if brief else ""
    base_turns: Sequence[Message]
    if about == "answer":
        base_turns = answer_prompt(context)
    else:
        options = options_block(context.question.options) if about == "question" else ""
        question_text = f"### Question\n{context.stem.text}" + (f"\n\n### Options\n{options}" if options else "")
        base_turns = [Message("user", question_text)]
    system = "\n".join(filter(None, [instruction, *(turn.content for turn in base_turns if turn.role == "system")]))
    turns = [turn for turn in base_turns if turn.role != "system"]

    def prompt(parts: Mapping[str, str]) -> list[Message]:
        """Build the messages with these parts."""
        preceding = "".join(f"### {heading}\n{text or '(empty)'}\n\n" for heading, text in parts.items())
        return [Message("system", system), *earlier, *turns[:-1], Message("user", preceding + turns[-1].content)]

    earlier = list(chat or ())
    # A chat that fills the window loses its oldest prompts with their replies.
    while earlier and context.room(prompt(dict.fromkeys(written, ""))) == 0:
        del earlier[:2]
    room = context.room(prompt(dict.fromkeys(written, "")))
    room_for_each = None if room is None else room // max(1, len(written))
    sections = {heading: ending(context, without_thought(text), room_for_each) for heading, text in written.items()}
    messages = prompt(sections)
    reply = await ask_object(context, messages, fields) if fields else (await context.ask(messages)).text
    if chat is not None:
        chat[:] = [*earlier, messages[-1], Message("assistant", without_thought(reply))]
    return reply


def letter(text: str, options: Iterable[str]) -> str:
    """Return the option that a reply names: by its JSON key, else the last option whose letter is separate; empty if
    none.
    """
    reply, letters = without_thought(text), "|".join(map(re.escape, options))
    stated = read_object(reply).get("answer_choice")
    source = stated if isinstance(stated, str) else reply
    matches = re.findall(rf"(?<![A-Za-z0-9_])(?:{letters})(?![A-Za-z0-9_])", source) if letters else []
    return (matches[0] if source is stated else matches[-1]) if matches else ""


def majority(letters: Sequence[str]) -> int:
    """Return the index of the first vote for the most frequent letter, the earlier of equals; -1 if there
    is no vote.
    """
    counts = Counter(filter(None, letters)).most_common(1)
    return letters.index(counts[0][0]) if counts else -1


def numbered(texts: Sequence[str], names: Sequence[str] = ()) -> str:
    """Return several texts, one below the other, with their names or numbers."""
    labels = names or [str(number) for number in range(1, len(texts) + 1)]
    return "\n\n".join(f"[{name}] {without_thought(text)}" for name, text in zip(labels, texts, strict=True))


def names(value: object, limit: int) -> list[str]:
    """Return the names in a list that a model wrote, each once."""
    texts = [wellformed(name) for name in value if isinstance(name, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(name for text in texts if (name := " ".join(text.split())[:200])))[:limit]


def experts(context: Context, text: str, limit: int) -> list[str]:
    """Return the experts in a model's JSON. If none can be read, add a note and return general medicine."""
    specialists = names(read_object(without_thought(text)).get("experts"), limit)
    if not specialists:
        context.note("no_experts", "no expert could be read; one of general medicine is asked")
    return specialists or ["general medicine"]
