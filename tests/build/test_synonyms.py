"""Synonym triples: which queries have one, what a triple must be, which sentence is drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ragrounds.build.consensus_labels import (
    Synonym,
    SynonymTriple,
    TripleSentences,
    read_synonyms,
    synonym_in,
    triple_fault,
    triple_pair,
)
from ragrounds.build.stages import holds_verbatim
from ragrounds.errors import UserError

PAIR = Synonym("heart attack", "myocardial infarction")
QUERY = "How is a heart attack treated in the first hours?"
GOOD = {
    "positive": "How is a myocardial infarction treated in the first hours?",
    "hard_negative": "What makes a myocardial infarction more likely?",
    "easy_negative": "What makes a heart attack more likely?",
}


def test_a_term_is_found_as_a_word_of_its_own() -> None:
    assert holds_verbatim("heart attack", "After a Heart-attack.")
    assert not holds_verbatim("heart attack", "a heart attacking disease")
    assert not holds_verbatim("tension", "hypertension")
    assert holds_verbatim("发烧", "孩子发烧怎么办")


def test_a_query_gets_the_longest_term_whose_synonym_it_does_not_hold() -> None:
    pairs = [Synonym("attack", "seizure"), PAIR]
    assert synonym_in(QUERY, pairs) == PAIR
    assert synonym_in("Is a heart attack a myocardial infarction?", [PAIR]) is None
    assert synonym_in("What is gout?", pairs) is None


def test_three_sentences_are_a_triple_or_it_is_said_why_not() -> None:
    assert triple_fault(QUERY, PAIR, TripleSentences(**GOOD)) == ""
    cases = {
        "no hard_negative": {**GOOD, "hard_negative": " "},
        "two of the sentences are the same": {**GOOD, "easy_negative": QUERY},
        "the positive does not hold 'myocardial infarction'": {**GOOD, "positive": "How is a stroke treated early on?"},
        "the easy_negative does not hold 'heart attack'": {**GOOD, "easy_negative": "What of a stroke?"},
        "the hard_negative holds 'heart attack'": {
            **GOOD, "hard_negative": "Is a myocardial infarction a heart attack?"
        },
        "the positive is 1.33 times as long as its query": {**GOOD, "positive": GOOD["positive"][:-1] + "?" * 8},
    }  # fmt: skip
    for reason, sentences in cases.items():
        assert triple_fault(QUERY, PAIR, TripleSentences(**sentences)) == reason


def test_a_synonym_may_hold_its_term() -> None:
    pair = Synonym("stroke", "ischaemic stroke")
    said = {
        "positive": "What causes an ischaemic stroke?",
        "hard_negative": "Who survives an ischaemic stroke?",
        "easy_negative": "Who survives a stroke?",
    }
    assert triple_fault("What causes a stroke in old age?", pair, TripleSentences(**said)) == ""


def test_one_of_three_is_drawn_by_seed_and_query() -> None:
    def triple(number: int) -> SynonymTriple:
        return SynonymTriple(query=f"{QUERY} {number}", term=PAIR.term, synonym=PAIR.synonym, **GOOD)

    pairs = [triple_pair(triple(number), 0) for number in range(300)]
    assert pairs == [triple_pair(triple(number), 0) for number in range(300)]
    counts = Counter(pair.sentence2 for pair in pairs)
    assert set(counts) == set(GOOD.values())
    assert min(counts.values()) > 60
    assert {pair.score for pair in pairs if pair.sentence2 == GOOD["positive"]} == {1.0}
    assert {pair.score for pair in pairs if pair.sentence2 != GOOD["positive"]} == {0.0}


def test_a_dictionary_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.jsonl"
    path.write_text('{"term": "stroke ", "synonym": "apoplexy"}\n{"term": "Stroke", "synonym": "apoplexy"}\n')
    assert read_synonyms(path) == (Synonym("stroke", "apoplexy"),)
    path.write_text('{"term": "stroke", "synonym": "Stroke"}\n')
    with pytest.raises(UserError, match="line 1: 'stroke' and 'Stroke' are not two names"):
        read_synonyms(path)
    path.write_text('{"term": "stroke"}\n')
    with pytest.raises(UserError, match="it has no field `synonym`"):
        read_synonyms(path)
