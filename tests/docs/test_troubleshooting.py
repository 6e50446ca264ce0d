"""docs/troubleshooting.md: every message that it quotes is one that the package says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
LEAST = 12
"""Letters that a message of the source has of its own: fewer would fit any quotation."""
GAP = "\0"


def quoted() -> list[str]:
    return [line[2:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("> ")]


def words(node: ast.AST) -> str | None:
    """The text of an expression, with a gap for each part that is not known before."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = words(node.left), words(node.right)
        return None if left is right is None else f"{GAP if left is None else left}{GAP if right is None else right}"
    return None


@cache
def messages() -> tuple[str, ...]:
    """Every text with letters enough of the modules that share a quotation's rarest words in a row."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "ragrounds").rglob("*.py")]
    likely = set()
    for line in quoted():
        runs = re.findall(r"(?=\b([a-z-]+ [a-z-]+ [a-z-]+)\b)", line)
        holders = [{source for source in sources if run in source} for run in runs]
        likely.update(*sorted(filter(None, holders), key=len)[:3])
    texts = {words(node) for source in likely for node in ast.walk(ast.parse(source))}
    return tuple(text for text in texts if text and sum(map(str.isalpha, text)) >= LEAST)


def says(message: str, quotation: str) -> bool:
    """Whether the quotation ends with this message, its gaps filled; ``…`` at its end leaves the rest out."""
    parts = message.split(GAP)
    last = max(range(len(parts)), key=lambda place: len(parts[place]))
    if parts[last] not in quotation or len(message) * 5 < len(quotation):
        return False
    counts = range(last + 1, len(parts) + 1) if quotation.endswith("…") else [len(parts)]
    whole = [".*".join(map(re.escape, parts[:count])) + ".*" * (count < len(parts)) for count in counts]
    return any(re.fullmatch(rf"(.*: )?{pattern}\.?", quotation) for pattern in whole)


@pytest.mark.parametrize("quotation", quoted(), ids=lambda text: text[:40])
def test_a_quoted_message_is_in_the_source(quotation: str) -> None:
    assert any(says(message, quotation) for message in messages()), (
        "no message of the package reads so: quote today's, or take it out of docs/troubleshooting.md"
    )


def test_what_no_message_says_is_noticed() -> None:
    assert not any(says(message, "The model is tired. Ask it again tomorrow.") for message in messages())
    assert not any(
        says(message, "Unknown agent 'dirct'. See `ragrounds agents ls` for none.") for message in messages()
    )


def test_the_page_has_the_messages_that_newcomers_meet() -> None:
    page = " ".join(quoted())
    for word in ("No model was named", "No key for OpenAI", "no corpus was given", "there is no such file"):
        assert word in page
