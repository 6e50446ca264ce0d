"""DDI 2013 through the command line: the micro-F1 of the corpus, against a count of the test's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.servers.scripted_http import Scripted

TYPES = ("mechanism", "effect", "advise", "int")
UNTOUCHED, WITHOUT_THE_LAST, TWO_AT_MOST = 580, 757, 874
"""Documents up to here are answered so; those behind, with an empty list. Thirteen texts stand twice, and
have one reply."""
Triplets = list[tuple[str, str, str]]


def stated(line: str) -> tuple[str, Triplets]:
    """The words of a document, and its typed interactions."""
    found: Triplets = []
    sentences = json.loads(line)["sentences"]
    for sentence in sentences:
        names = {one["id"]: one["text"] for one in sentence["entities"]}
        found += [
            (names[pair["e1"]], pair["type"], names[pair["e2"]])
            for pair in sentence["pairs"]
            if pair["ddi"] == "true" and pair.get("type") in TYPES
        ]
    return " ".join(" ".join(one["text"] for one in sentences).split()), list(dict.fromkeys(found))


def reply(place: int, gold: Triplets) -> Triplets:
    if place < UNTOUCHED:
        return gold
    return gold[:-1] if place < WITHOUT_THE_LAST else gold[:2] if place < TWO_AT_MOST else []


def folded(triplets: Triplets) -> set[tuple[frozenset[str], str]]:
    return {(frozenset(" ".join(name.lower().split()) for name in (one, two)), kind) for one, kind, two in triplets}


@pytest.mark.data
@pytest.mark.slow
def test_the_figure_is_79_15_where_the_mean_of_the_texts_is_82_02(command: Cli, data: Path) -> None:
    documents = [stated(line) for line in (data / "ddi" / "ddi2013.jsonl").open(encoding="utf-8")]
    replies: dict[str, Triplets] = {}
    for place, (text, gold) in enumerate(documents):
        replies.setdefault(text, reply(place, gold))
    given = [replies[text] for text, _ in documents]
    right = wrong = missed = 0
    own = []
    for (_, gold), found in zip(documents, given, strict=True):
        wanted, made = folded(gold), folded(found)
        both, either = len(wanted & made), len(wanted) + len(made)
        right, wrong, missed = right + both, wrong + len(made - wanted), missed + len(wanted - made)
        own.append(2 * both / either if either else 1.0)
    assert round(100 * sum(own) / len(own), 2) == 82.02
    expected = 2 * right / (2 * right + wrong + missed)
    assert round(100 * expected, 2) == 79.15

    def answer(prompt: str, _: int) -> str:
        asked = prompt.partition("\n\nText: ")[2].rpartition("### Answer")[0]
        return json.dumps(replies[" ".join(asked.split())])

    server = Scripted(answer)
    try:
        run = ("run", "--benchmark", f"mrag/ddi:{data / 'ddi'}", "--agent", "direct", "--base-url", server.url)
        done = command(*run, "--model", "openai:m", "--display", "plain", OPENAI_API_KEY="none")
        assert "score so far: direct 79.15 (triplets)" in done.stderr
        assert " 79.15 " in done.stdout
        again = command(*run, "--model", "openai:m", "--display", "none", "--json", OPENAI_API_KEY="none")
        table = next(one for one in json.loads(again.stdout)["tables"] if one["scorer"] == "triplets")
        assert table["lines"][0]["overall"]["value"] == pytest.approx(expected)
        server.script = lambda prompt, _: "[]"
        empty = command(
            *run, "--model", "openai:n", "--limit", "60", "--display", "none", "--full", OPENAI_API_KEY="none"
        )
        rows = [line for line in empty.stdout.splitlines() if line.startswith("direct")]
        assert rows[0].split()[1] == "0.00"
    finally:
        server.close()
