"""Records as bytes: long texts apart, once, whatever they stand among."""

from __future__ import annotations

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.evals.store.codec import LONG, DamagedRecord, decode_without_texts, pack, unpack


class Blobs:
    """Texts stored apart."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def store(self, record: object) -> bytes:
        body, apart = pack(record)
        self.kept |= apart
        return body

    def fetch(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        return {hash: self.kept[hash].decode() for hash in hashes if hash in self.kept}


def asked(*texts: str) -> Request:
    return Request(messages=tuple(Message("user", text) for text in texts))


passage = st.integers(0, 40).map(lambda number: f"passage {number} says " + f"word{number} " * 150)
line = st.one_of(passage, st.text(max_size=30), st.just(""), st.text("ab\u2028\x85 ", min_size=LONG, max_size=LONG + 9))
ending = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x0b", "\u2028"])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a busy machine is no fault of ours
@given(st.lists(st.tuples(st.text(max_size=12), line, ending), max_size=12))
def test_what_comes_out_is_what_went_in(lines: list[tuple[str, str, str]]) -> None:
    blobs = Blobs()
    text = "".join(before + body + end for before, body, end in lines)
    for record in (asked(text), asked("".join(body for _, body, _ in lines), text)):
        body = blobs.store(record)
        assert unpack(body, Request, blobs.fetch) == record
        assert decode_without_texts(body)[1] <= set(blobs.kept)


def test_a_passage_stands_once_whatever_number_it_has_in_a_prompt() -> None:
    blobs = Blobs()
    texts = [f"Passage {number}: " + f"finding {number} of the trial, " * 40 for number in range(20)]
    blobs.store(texts)
    before = set(blobs.kept)
    prompt = "\n\n".join(f"Document [{number}] (Title: Trial) {text}" for number, text in enumerate(reversed(texts)))
    record = asked(f"Here are the documents.\n{prompt}\nAnswer.")
    body = blobs.store(record)
    assert set(blobs.kept) == before
    assert len(body) < 20 * 60
    assert unpack(body, Request, blobs.fetch) == record


def test_also_where_it_never_stood_alone() -> None:
    blobs = Blobs()
    passages = [f"outcome {number} of the second study; " * 40 for number in range(10)]
    for turn in range(5):
        lines = [f"[{(turn * 3 + place) % 10}] {text}" for place, text in enumerate(passages)]
        record = asked("\n".join(lines))
        assert unpack(blobs.store(record), Request, blobs.fetch) == record
    assert len(blobs.kept) == 20  # once with its first number, once without


def test_a_missing_text_is_an_error() -> None:
    body, _ = pack(asked("x" * LONG + "\n" + "y" * LONG))
    with pytest.raises(DamagedRecord, match="2 texts that a record refers to are missing"):
        unpack(body, Request, lambda hashes: {})
