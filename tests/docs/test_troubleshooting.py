"""docs/troubleshooting.md: every message that it quotes is one that the package says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LEAST = 12
"""Letters that a message of the source has of its own: fewer would fit any quotation."""
GAP = "\0"
RUN = re.compile(r"(?=\b([A-Za-z-]+(?: [a-z-]+){1,4})\b)")
"""Some words in a row."""


def quoted() -> list[str]:
    return [line[2:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("> ")]


@cache
def source() -> str:
    """The package's modules, texts that stand in several lines joined, with a gap for each part that is filled in."""
    modules = (path.read_text(encoding="utf-8") for path in (ROOT / "ragrounds").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(modules))
    return re.sub(r"\{[^{}\n]*\}", GAP, joined)


def messages(quotation: str) -> Iterator[str]:
    """The texts of the package that hold some of a quotation's words in a row."""
    runs = sorted({found[1] for found in RUN.finditer(quotation)}, key=len, reverse=True)
    for run in runs:
        at = source().find(run)
        while at >= 0:
            begin, end = source().rfind('"', 0, at), source().find('"', at)
            if "\n" not in source()[begin:end]:
                yield source()[begin + 1 : end]
            at = source().find(run, at + 1)


def says(message: str, quotation: str) -> bool:
    """Whether the quotation ends with this message, its gaps filled; ``…`` at its end leaves the rest out."""
    parts = message.split(GAP)
    last = max(range(len(parts)), key=lambda place: len(parts[place]))
    letters = sum(map(str.isalpha, message))
    if letters < LEAST or letters * 5 < len(quotation) or parts[last] not in quotation:
        return False
    counts = range(last + 1, len(parts) + 1) if quotation.endswith("…") else [len(parts)]
    whole = [".*".join(map(re.escape, parts[:count])) + ".*" * (count < len(parts)) for count in counts]
    return any(re.fullmatch(rf"(.*: )?{pattern}\.?", quotation) for pattern in whole)


@each_row("quotation", quoted())
def test_a_quoted_message_is_in_the_source(quotation: str) -> None:
    assert any(says(message, quotation) for message in messages(quotation)), (
        "no message of the package reads so: quote today's, or take it out of docs/troubleshooting.md"
    )


@pytest.mark.parametrize(
    "invented",
    [
        "The model is tired. Ask it again tomorrow.",
        "Unknown agent 'dirct'. See `ragrounds list agents` for none.",
        "No key for OpenAI: the environment variable … is not set. Never mind.",
    ],
)
def test_what_no_message_says_is_noticed(invented: str) -> None:
    assert not any(says(message, invented) for message in messages(invented))


def test_the_page_has_the_messages_that_newcomers_meet() -> None:
    page = " ".join(quoted())
    for word in ("No model was given", "No key for OpenAI", "no corpus was given", "there is no such file"):
        assert word in page
