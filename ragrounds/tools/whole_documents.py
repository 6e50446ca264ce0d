"""Whole documents, put together again from the chunks that a collection stores.

A collection holds chunks alone: with windows of 512 tokens, a new one every 128, each part of a text stands there four
times. What two neighbours share is found by comparing their texts, so each part is given once. One document is in
memory at a time.

| chunker | what comes back |
|---|---|
| ``none``, one passage | the text itself |
| ``tokens`` | the text, letter by letter |
| ``recursive`` | the text, but for white space between pieces that share nothing: the splitter drops it |
| ``headings`` | the paragraphs in their order, each section's heading before its first |
| ``none``, several passages | the passages in their order, a blank line between them |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ragrounds.base.encodings import encoding_of
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.index.chunkers import complete
from ragrounds.tools.index.collection import Collection

_HEADINGS = " -- "
_SURE = 20
"""Characters that two pieces have in common by more than chance."""


def whole_document(id: str, collections: Sequence[Collection]) -> Passage | None:
    """The document of that id from the first collection that has it; ``None``: none has it.

    Its passage is called as the document is, and is unranked.
    """
    for collection in collections:
        chunks = collection.document(id)
        if chunks:
            return joined_chunks(chunks, collection.manifest.chunker)
    return None


def joined_chunks(chunks: Sequence[Passage], chunker: str) -> Passage:
    """One passage with the text of all chunks of a document, in their order, each part of it once."""
    spec = complete(chunker)
    whole = replace(chunks[0], id=chunks[0].document)
    if len(chunks) == 1 and spec.name != "headings":
        return whole
    if spec.name == "headings":
        return _under_headings(whole, chunks)
    text = chunks[0].text
    for before, after in pairwise(chunks):
        shared = shared_length(before.text, after.text, spec)
        text += ("\n\n" if shared is None else "") + after.text[shared or 0 :]
    return replace(whole, text=text)


def shared_length(before: str, after: str, chunker: Spec) -> int | None:
    """How many characters the beginning of a chunk has in common with the end of the one before it.

    Returns:
        0: it begins where the other ends; ``None``: something (white space) may be missing between them.
    """
    if chunker.name == "tokens":
        size, stride = (int(str(chunker.parameters[key])) for key in ("size", "stride"))
        if size == stride:
            return 0
        found = list(_common(before, after))
        if len(found) < 2:
            return found[0] if found else 0  # windows touch, so nothing is missing between them
        # A text that repeats itself fits in several places: the window's own step says which it is.
        expected = _last_tokens(before, size - stride, str(chunker.parameters["encoding"]))
        return min(found, key=lambda length: abs(length - expected))
    if chunker.name == "recursive":
        most = int(str(chunker.parameters["overlap"]))
        likely = (length for length in _common(before, after) if length <= most and _sure(before, after, length))
        return max(likely, default=None)
    return None


def _common(before: str, after: str) -> Iterator[int]:
    """Every length for which the end of one text is the beginning of the other, longest first."""
    place = before.find(after[:_SURE]) if len(after) >= _SURE else -1
    while place != -1:
        if after.startswith(before[place:]):
            yield len(before) - place
        place = before.find(after[:_SURE], place + 1)
    for length in range(min(len(before), len(after), _SURE - 1), 0, -1):
        if before.endswith(after[:length]):
            yield length


def _sure(before: str, after: str, length: int) -> bool:
    """Whether what is common is a piece of its own, and not the same letter by chance."""
    if length >= _SURE:
        return True
    begins = length == len(before) or before[-length - 1].isspace()
    return begins and (length == len(after) or after[length].isspace())


def _last_tokens(text: str, count: int, encoding: str) -> int:
    """Characters of the last tokens of a text."""
    codec = encoding_of(encoding)
    starts = codec.decode_with_offsets(codec.encode_ordinary(text))[1]
    return len(text) - starts[max(0, len(starts) - count)] if starts else 0


def _under_headings(whole: Passage, chunks: Sequence[Passage]) -> Passage:
    """The paragraphs of an article; what all their titles begin with is its title."""
    paths = [chunk.title.split(_HEADINGS) for chunk in chunks]
    depth = min(map(len, paths))
    while depth > 1 and len({tuple(path[:depth]) for path in paths}) > 1:
        depth -= 1
    parts: list[str] = []
    last: list[str] = []
    for path, chunk in zip(paths, chunks, strict=True):
        if path[depth:] and path != last:
            parts.append(_HEADINGS.join(path[depth:]))
        last = path
        parts.append(chunk.text)
    return replace(whole, title=_HEADINGS.join(paths[0][:depth]), text="\n\n".join(parts))
