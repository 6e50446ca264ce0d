"""Parsing of a model's text: its queries, the steps and the end of its reasoning, its boxed conclusion."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragrounds.base.contracts import Context
from ragrounds.base.records import Query
from ragrounds.base.replies import split_thoughts
from ragrounds.base.text import between_marks, wellformed

MAX_QUERY_CHARACTERS = 2000
"""Number of characters of a query that a model wrote. A query that never ends must not flood a search engine."""


def written_query(context: Context, text: str, *, raw: bool = False) -> Query:
    """Make a query of a model's text: spaces collapsed unless `raw`, cut at :data:`MAX_QUERY_CHARACTERS` characters.

    A JSON escape can hold half a surrogate pair, which is not text.
    """
    plain = wellformed(text) if raw else " ".join(wellformed(text).split())
    if len(plain) > MAX_QUERY_CHARACTERS:
        context.note("query_cut", f"a query of {len(plain)} characters was cut to {MAX_QUERY_CHARACTERS}")
        plain = plain[:MAX_QUERY_CHARACTERS]
    return Query(plain)


def folded(text: str) -> str:
    """Return the form of a query in which equal queries are compared."""
    return " ".join(text.split()).casefold()


def repeated(text: str, before: Sequence[str]) -> bool:
    """Return True if a query was searched for before."""
    return folded(text) in {folded(query) for query in before}


_STEP = re.compile(r"\n\s*\n")
_ALL = 5
"""Number of steps up to which nothing is left out."""
_LAST = 4


def shortened(text: str, marks: Sequence[str]) -> str:
    """Return the reasoning as the reader of documents gets it (Search-o1): numbered steps, with gaps.

    Up to five steps are all kept; of more, the first, the last four and every one that holds one of `marks` (a query
    or a result). Each gap is an ellipsis.
    """
    steps = [step.strip() for step in _STEP.split(text) if step.strip()]
    lines: list[str] = []
    for number, step in enumerate(steps, 1):
        last = number > len(steps) - _LAST
        if len(steps) <= _ALL or number == 1 or last or any(mark in step for mark in marks):
            lines.append(f"Step {number}: {step}")
        elif lines[-1] != "...":
            lines.append("...")
    return "\n\n".join(lines)


def shortened_lines(text: str, marks: Sequence[str]) -> str:
    """Return the reasoning as :func:`shortened` does, with lines as steps, as in the program of Search-o1.

    Two line feeds become one, then each line is a step, even an empty line. An empty step that ends the program's list
    counts among the last four, so that of more than four steps only the last three are sure to be kept.
    """
    steps = [f"Step {number}: {line}" for number, line in enumerate(text.replace("\n\n", "\n").split("\n"), 1)] + [""]
    if len(steps) <= _ALL:
        return "\n\n".join(steps).strip("\n")
    lines: list[str] = []
    for index, step in enumerate(steps):
        if index == 0 or index >= len(steps) - _LAST or any(mark in step for mark in marks):
            lines.append(step)
        elif lines[-1] != "...":
            lines.append("...")
    return "\n\n".join(lines).strip("\n")


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}``, including braces inside it; ``None`` if it does not exist or is
    empty.
    """
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed{")
    for index in range(begin, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            if depth == 0:
                return text[begin:index].strip() or None
            depth -= 1
    return None


def boxed_line(text: str, *, plain: bool = True) -> str | None:
    r"""Return the content of the last ``\boxed{…}`` as the program of Search-o1 reads it; ``None`` if it is missing.

    A box extends to the last ``}`` of its line. If a line has two boxes, the first counts, with all between them.

    Args:
        text: Text of a model.
        plain: True to unwrap ``\text{…}`` and strip round brackets at both ends, as for questions with a name or
            a letter as their answer.
    """
    last = _last_in_braces(text, "\\boxed{")
    if last is not None and plain:
        inside = _last_in_braces(last, "\\text{")
        last = (last if inside is None else inside).strip("()")
    return last or None


def _last_in_braces(text: str, begin: str) -> str | None:
    """Return the text from the first `begin` of a line to the last brace of that line, for the last line
    that has both.
    """
    for line in reversed(text.split("\n")):
        start, stop = line.find(begin), line.rfind("}")
        if start >= 0 and start + len(begin) <= stop:
            return line[start + len(begin) : stop]
    return None


def last_between(text: str, begin: str, end: str) -> str | None:
    """Return the text between the last pair of marks, each begin with its nearest end; ``None`` if there is no pair."""
    matches = between_marks(text, begin, end)
    return matches[-1].strip() if matches else None


def without_thought(text: str) -> str:
    """Return the text without thoughts, including a part that is never closed."""
    return split_thoughts(text)[0].strip()


def answer_text(context: Context, text: str) -> str:
    """Return a final answer.

    With ``answer_spaces=squeezed`` every run of white space becomes one blank, as in MedRAG's program before its
    evaluation looks for a mark with a blank in it.
    """
    return re.sub(r"\s+", " ", text) if context.parameters.get("answer_spaces") == "squeezed" else text


def ending(context: Context, text: str, tokens: int | None, *, role: str = "answering") -> str:
    """Return the end of `text` with at most `tokens` tokens, since the conclusion is at the end; ``None`` returns all
    of it.
    """
    if tokens is None:
        return text
    size = context.count(text, role=role)
    if size <= tokens:
        return text
    context.note("reasoning_cut", f"of {size} tokens of earlier reasoning only the last {max(tokens, 0)} were shown")
    while text and size > tokens:
        # Characters a token vary, so the cut is made in rounds.
        keep = min(len(text) - 1, len(text) * max(tokens, 0) // size)
        text = text[len(text) - keep :] if keep else ""
        size = context.count(text, role=role) if text else 0
    return text
