"""Whole documents, put together again from the chunks that a collection stores.

A collection holds chunks alone: with windows of 512 tokens, a new one every 128, each part of a text is stored four
times. The shared part of two neighbours is found by comparing their texts, so each part is returned once. One document
is in memory at a time.

| chunker | result |
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
"""Number of characters that two pieces have in common by more than chance."""


def whole_document(id: str, collections: Sequence[Collection]) -> Passage | None:
    """Return the document of that id from the first collection that has it; ``None`` if none has it.

    Its passage has the document's id, and is unranked.
    """
    for collection in collections:
        chunks = collection.document(id)
        if chunks:
            return joined_chunks(chunks, collection.manifest.chunker)
    return None


def joined_chunks(chunks: Sequence[Passage], chunker: str) -> Passage:
    """Return one passage with the text of all chunks of a document, in their order, each part of it once."""
    spec = complete(chunker)
    document = replace(chunks[0], id=chunks[0].document)
    if len(chunks) == 1 and spec.name != "headings":
        return document
    if spec.name == "headings":
        return _under_headings(document, chunks)
    text = chunks[0].text
    for before, after in pairwise(chunks):
        shared = shared_length(before.text, after.text, spec)
        text += ("\n\n" if shared is None else "") + after.text[shared or 0 :]
    return replace(document, text=text)


def shared_length(before: str, after: str, chunker: Spec) -> int | None:
    """Return how many characters the beginning of a chunk shares with the end of the previous chunk.

    Returns:
        0 if it begins where the other ends; ``None`` if something (white space) may be missing between them.
    """
    if chunker.name == "tokens":
        size, stride = (int(str(chunker.parameters[key])) for key in ("size", "stride"))
        if size == stride:
            return 0
        lengths = list(_common(before, after))
        if len(lengths) < 2:
            return lengths[0] if lengths else 0  # windows touch, so nothing is missing between them
        # A text that repeats itself fits in several places: the window's own step says which it is.
        codec = encoding_of(str(chunker.parameters["encoding"]))
        starts = codec.decode_with_offsets(codec.encode_ordinary(before))[1]
        expected = len(before) - starts[max(0, len(starts) - (size - stride))] if starts else 0
        return min(lengths, key=lambda length: abs(length - expected))
    if chunker.name == "recursive":
        overlap = int(str(chunker.parameters["overlap"]))
        likely = (length for length in _common(before, after) if length <= overlap and _sure(before, after, length))
        return max(likely, default=None)
    return None


def _common(before: str, after: str) -> Iterator[int]:
    """Yield every length for which the end of one text is the beginning of the other, longest first."""
    position = before.find(after[:_SURE]) if len(after) >= _SURE else -1
    while position != -1:
        if after.startswith(before[position:]):
            yield len(before) - position
        position = before.find(after[:_SURE], position + 1)
    for length in range(min(len(before), len(after), _SURE - 1), 0, -1):
        if before.endswith(after[:length]):
            yield length


def _sure(before: str, after: str, length: int) -> bool:
    """Return True if the common part is a piece of its own, and not the same letter by chance."""
    if length >= _SURE:
        return True
    begins = length == len(before) or before[-length - 1].isspace()
    return begins and (length == len(after) or after[length].isspace())


def _under_headings(document: Passage, chunks: Sequence[Passage]) -> Passage:
    """Return the paragraphs of an article. The common beginning of all their titles is its title."""
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
    return replace(document, title=_HEADINGS.join(paths[0][:depth]), text="\n\n".join(parts))
