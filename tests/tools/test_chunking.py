"""Chunkers: no word is lost, every chunk knows its document."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragrounds.base.encodings import encoding_of
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.tools.index.chunkers import chunker, complete, paragraphs, splitter


def _document(text, title="T"):
    return Passage(id="a/b_1", document="a/b", title=title, text=text, corpus="")


def test_chunks_know_their_document():
    cut = chunker("recursive[size=20,overlap=5]")
    chunks = cut(_document("one two three four five six seven eight nine ten"))
    assert [chunk.id for chunk in chunks] == [f"a/b_1_{n}" for n in range(len(chunks))]
    assert len(chunks) > 2
    assert {(chunk.document, chunk.title) for chunk in chunks} == {("a/b", "T")}
    assert all(len(chunk.text) <= 20 for chunk in chunks)
    assert chunker("none") is None


@example(text="0:0", size=2, step=2)
@given(text=st.text(), size=st.integers(1, 30), step=st.integers(1, 30))
def test_windows_of_tokens_cover_the_text(text, size, step):
    stride = min(step, size)
    pieces = splitter(f"tokens[size={size},stride={stride}]")(text)
    assert pieces
    at = end = 0
    for piece in pieces:  # each piece is a slice of the text, begins no later than the last one ended, and ends later
        at = text.rfind(piece, at, end + len(piece))
        assert at != -1
        end = max(end, at + len(piece))
    assert end == len(text)


def test_the_stride_is_the_step_between_windows():
    codec = encoding_of("cl100k_base")
    text = " ".join(["word"] * 40)
    pieces = splitter("tokens[size=10,stride=10]")(text)
    assert [len(codec.encode(piece)) for piece in pieces] == [10, 10, 10, 10]
    assert "".join(pieces) == text
    assert len(splitter("tokens[size=10,stride=5]")(text)) == 7


def test_control_tokens_in_a_text_are_text():
    assert splitter("tokens[size=4,stride=4]")("<|endoftext|> x") != []


@given(st.text(alphabet="ab \n", max_size=60))
def test_no_document_is_lost(text):
    for spec in ("recursive[size=5,overlap=2]", "headings[short=3,most=9]", "tokens[size=3,stride=2]"):
        chunks = chunker(spec)(_document(text))
        assert chunks
        assert {letter for chunk in chunks for letter in chunk.text if letter in "ab"} == set(text) & set("ab")


def test_statpearls_titles_and_joined_paragraphs():
    long = "x" * 300
    text = f"Lead.\n\n# Etiology\n\nShort one.\n\nShort two.\n\n{long}\n\n{long}\n\n"
    text += "## Viral\n\nOf viruses.\n# Treatment\nRest."
    assert list(paragraphs("Croup", text, short=200, longest=1000)) == [
        ("Croup", "Lead."),
        ("Croup -- Etiology", f"Short one. Short two. {long}"),
        ("Croup -- Etiology", long),
        ("Croup -- Etiology -- Viral", "Of viruses."),
        ("Croup -- Treatment", "Rest."),
    ]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12))
def test_joined_paragraphs_stay_below_the_limit(lengths):
    text = "\n\n".join("y" * length for length in lengths)
    found = [body for _, body in paragraphs("t", text, short=200, longest=500)]
    assert sum(body.count("y") for body in found) == sum(lengths)
    assert all(len(body) < 500 for body in found)


@pytest.mark.parametrize(
    "spec", ["wordz", "recursive[sise=3]", "recursive[size=5,overlap=5]", "tokens[stride=600]", "tokens[size=big]"]
)
def test_chunkers_that_make_no_sense(spec):
    with pytest.raises(UserError):
        complete(spec)


def test_an_encoding_that_would_be_downloaded_is_refused(monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    with pytest.raises(UserError, match="not shipped"):
        chunker("tokens[encoding=gpt2]")
