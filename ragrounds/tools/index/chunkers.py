"""Chunkers: they cut a document into passages. Each passage knows its document, and is called ``DOCUMENT_NUMBER``.

| spec | what it does | used by |
|---|---|---|
| ``none`` | leaves documents whole | PubMed abstracts |
| ``recursive[size=1000,overlap=200]`` | LangChain's recursive splitter, in characters | MedRAG's textbooks, Wikipedia |
| ``tokens[size=512,stride=128,encoding=cl100k_base]`` | windows of tokens, cut where tokens begin | OGCaReBench |
| ``headings[short=200,most=1000]`` | paragraphs under their headings; short ones are joined | MedRAG's StatPearls |

The stride is how far a window is from the next one: OGCaReBench tries 128, 256, 384 and 512 with windows of 512 tokens
(Table 11), the last of which have nothing in common. Tokenizers use the word for the overlap, here 384.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ragrounds.base.encodings import encoding_of
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, parse

Chunker = Callable[[Passage], list[Passage]]
Splitter = Callable[[str], list[str]]

_DEFAULTS: dict[str, dict[str, int | str]] = {
    "none": {},
    "recursive": {"size": 1000, "overlap": 200},
    "tokens": {"size": 512, "stride": 128, "encoding": "cl100k_base"},
    "headings": {"short": 200, "most": 1000},
}
NAMES = tuple(_DEFAULTS)


def complete(spec: Spec | str) -> Spec:
    """The canonical spec of a chunker, with every parameter given.

    Raises:
        UserError: no such chunker or parameter, or a size that makes no sense.
    """
    given = parse(spec) if isinstance(spec, str) else spec
    if given.name not in _DEFAULTS:
        raise unknown("chunker", given.name, NAMES, "ragrounds index build --help")
    defaults = _DEFAULTS[given.name]
    for key, value in given.parameters.items():
        if key not in defaults:
            raise UserError(f"The chunker {given.name!r} has no parameter {key!r}.{nearest(key, defaults)}")
        if type(value) is not type(defaults[key]):
            raise UserError(f"The chunker's {key} is {value!r}: expected a value like {defaults[key]!r}.")
    made = {**defaults, **given.parameters}
    sizes = {key: value for key, value in made.items() if isinstance(value, int)}
    size = sizes.get("size", 2)
    if size < 1 or not 0 <= sizes.get("overlap", 0) < size or not 1 <= sizes.get("stride", 1) <= size:
        raise UserError(
            f"Cannot cut with {str(given)!r}: expected size above 0, an overlap below it, a stride from 1 to the size."
        )
    return Spec(given.name, made)


def chunker(spec: Spec | str) -> Chunker | None:
    """Make a chunker; ``None`` for ``none``."""
    chosen = complete(spec)
    if chosen.name == "none":
        return None
    if chosen.name == "headings":
        short, most = (int(str(chosen.parameters[key])) for key in ("short", "most"))
        return lambda document: _numbered(document, paragraphs(document.title, document.text, short, most))
    split = splitter(chosen)
    return lambda document: _numbered(document, ((document.title, text) for text in split(document.text)))


def splitter(spec: Spec | str) -> Splitter:
    """Make a function that cuts plain text, for the chunkers that need no headings; queries are cut with it too."""
    chosen = complete(spec)
    values = chosen.parameters
    if chosen.name == "recursive":
        return _recursive(int(str(values["size"])), int(str(values["overlap"])))
    if chosen.name == "tokens":
        return _windows(int(str(values["size"])), int(str(values["stride"])), str(values["encoding"]))
    if chosen.name == "none":
        return lambda text: [text]
    raise UserError(f"The chunker {chosen.name!r} cannot cut a text without headings: take 'recursive' or 'tokens'.")


def _numbered(document: Passage, parts: Iterable[tuple[str, str]]) -> list[Passage]:
    return [
        Passage(
            id=f"{document.id}_{number}", document=document.document, title=title, text=text, corpus=document.corpus
        )
        for number, (title, text) in enumerate(parts)
    ]


def _recursive(size: int, overlap: int) -> Splitter:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    made = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
    # A document of blanks alone gives no piece: it stays one empty passage, so that no document is lost.
    return lambda text: made.split_text(text) or [""]


def _windows(size: int, stride: int, encoding: str) -> Splitter:

    codec = encoding_of(encoding)

    def _split(text: str) -> list[str]:
        ids = codec.encode_ordinary(text)
        if len(ids) <= size:
            return [text]
        starts = codec.decode_with_offsets(ids)[1]
        pieces = []
        for first in range(0, len(ids), stride):
            end = starts[first + size] if first + size < len(ids) else len(text)
            pieces.append(text[starts[first] : end])
            if first + size >= len(ids):
                break
        return pieces

    return _split


_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_BLANK = re.compile(r"\n\s*\n")


def paragraphs(title: str, text: str, short: int, most: int) -> Iterator[tuple[str, str]]:
    """Titles and texts of a Markdown document's paragraphs.

    A title is ``article -- section -- subtitle``; paragraphs below `short` characters are joined to the next of their
    section while the result stays below `most` (MedRAG's StatPearls, Xiong et al. 2024).
    """
    levels: dict[int, str] = {}
    held = ""
    gave = False

    def _full_title() -> str:
        return " -- ".join(part for part in (title, *(levels[level] for level in sorted(levels))) if part)

    for block in _BLANK.split(text):
        for part in _parts(block):
            heading = _HEADING.fullmatch(part)
            if heading:
                if held:
                    yield _full_title(), held
                    gave, held = True, ""
                level = len(heading.group(1))
                levels = {other: name for other, name in levels.items() if other < level}
                levels[level] = heading.group(2).strip()
            elif held and (len(held) < short or len(part) < short) and len(held) + 1 + len(part) < most:
                held = f"{held} {part}"
            else:
                if held:
                    yield _full_title(), held
                    gave = True
                held = part
    if held or not gave:
        yield _full_title(), held


def _parts(block: str) -> Iterator[str]:
    """The headings of a block, and its other lines joined to paragraphs."""
    lines: list[str] = []
    for line in block.splitlines():
        stripped = line.strip()
        if _HEADING.fullmatch(stripped):
            if lines:
                yield " ".join(lines)
            lines = []
            yield stripped
        elif stripped:
            lines.append(stripped)
    if lines:
        yield " ".join(lines)
