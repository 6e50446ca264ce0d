"""What strategies of several voices share: how a voice is asked, and how the choices of several are counted.

A prompt of theirs is an instruction alone. What it is about follows it in parts under headings: what others wrote, cut
on the left where the window is small, then the question.
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
from ragrounds.graphs.shapes import read_object


async def say(
    context: Context,
    brief: str,
    about: Literal["stem", "question", "answer"],
    written: Mapping[str, str] = MappingProxyType({}),
    **values: str,
) -> str:
    """What a voice says.

    Args:
        context: the attempt.
        brief: the prompt that says what to do; empty: none beside that of the answer.
        about: the question's stem; the question with its options; or that, and the answer is asked for in its form.
        written: heading → what others wrote.
        values: of the prompt.
    """
    told = context.prompts.text(brief, context.stem.language, **values) if brief else ""
    asked: Sequence[Message]
    if about == "answer":
        asked = answer_prompt(context)
    else:
        options = options_block(context.question.options) if about == "question" else ""
        shown = f"### Question\n{context.stem.text}" + (f"\n\n### Options\n{options}" if options else "")
        asked = [Message("user", shown)]
    system = "\n".join(filter(None, [told, *(turn.content for turn in asked if turn.role == "system")]))
    turns = [turn for turn in asked if turn.role != "system"]

    def prompt(parts: Mapping[str, str]) -> list[Message]:
        """With these parts."""
        above = "".join(f"### {heading}\n{text or '(empty)'}\n\n" for heading, text in parts.items())
        return [Message("system", system), *turns[:-1], Message("user", above + turns[-1].content)]

    room = context.room(prompt(dict.fromkeys(written, "")))
    each = None if room is None else room // max(1, len(written))
    kept = {heading: ending(context, without_thought(text), each) for heading, text in written.items()}
    return (await context.ask(prompt(kept))).text


def letter(text: str, options: Iterable[str]) -> str:
    """The option that a reply names: by its JSON key, else the last one whose letter stands alone; empty: none."""
    said, letters = without_thought(text), "|".join(map(re.escape, options))
    given = read_object(said).get("answer_choice")
    named = given if isinstance(given, str) else said
    found = re.findall(rf"(?<![A-Za-z0-9_])(?:{letters})(?![A-Za-z0-9_])", named) if letters else []
    return (found[0] if named is given else found[-1]) if found else ""


def majority(letters: Sequence[str]) -> int:
    """The place of the first of those letters that most voices chose; of equals the earlier one, -1: there is none."""
    counts = Counter(filter(None, letters)).most_common(1)
    return letters.index(counts[0][0]) if counts else -1


def numbered(texts: Sequence[str], names: Sequence[str] = ()) -> str:
    """What several wrote, one below the other, with their names or numbers."""
    shown = names or [str(number) for number in range(1, len(texts) + 1)]
    return "\n\n".join(f"[{name}] {without_thought(text)}" for name, text in zip(shown, texts, strict=True))


def names(given: object, most: int) -> list[str]:
    """The names in a list that a model wrote, each once."""
    texts = [wellformed(one) for one in given if isinstance(one, str)] if isinstance(given, list) else []
    return list(dict.fromkeys(name for text in texts if (name := " ".join(text.split())[:200])))[:most]


def experts(context: Context, text: str, most: int) -> list[str]:
    """The experts that a model's JSON lists; a note and one of general medicine where there are none."""
    found = names(read_object(without_thought(text)).get("experts"), most)
    if not found:
        context.note("no_experts", "no expert could be read; one of general medicine is asked")
    return found or ["general medicine"]
