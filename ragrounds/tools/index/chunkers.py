"""Chunkers: they cut a document into passages. Each passage knows its document, and is called ``DOCUMENT_NUMBER``.

| spec | method | used by |
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
    """Return the canonical spec of a chunker, with every parameter set.

    Raises:
        UserError: the chunker or a parameter is unknown, or a size makes no sense.
    """
    parsed = parse(spec) if isinstance(spec, str) else spec
    if parsed.name not in _DEFAULTS:
        raise unknown("chunker", parsed.name, NAMES, "ragrounds index build --help")
    defaults = _DEFAULTS[parsed.name]
    for key, value in parsed.parameters.items():
        if key not in defaults:
            raise UserError(f"The chunker {parsed.name!r} has no parameter {key!r}.{nearest(key, defaults)}")
        if type(value) is not type(defaults[key]):
            raise UserError(f"The chunker's {key} is {value!r}: expected a value like {defaults[key]!r}.")
    parameters = {**defaults, **parsed.parameters}
    sizes = {key: value for key, value in parameters.items() if isinstance(value, int)}
    size = sizes.get("size", 2)
    if size < 1 or not 0 <= sizes.get("overlap", 0) < size or not 1 <= sizes.get("stride", 1) <= size:
        raise UserError(
            f"Cannot cut with {str(parsed)!r}: expected size above 0, an overlap below it, a stride from 1 to the size."
        )
    return Spec(parsed.name, parameters)


def chunker(spec: Spec | str) -> Chunker | None:
    """Return the chunker of a spec; ``None`` for ``none``."""
    full_spec = complete(spec)
    if full_spec.name == "none":
        return None
    if full_spec.name == "headings":
        short, longest = (int(str(full_spec.parameters[key])) for key in ("short", "most"))
        return lambda document: _number_passages(document, paragraphs(document.title, document.text, short, longest))
    split = splitter(full_spec)
    return lambda document: _number_passages(document, ((document.title, text) for text in split(document.text)))


def splitter(spec: Spec | str) -> Splitter:
    """Return a function that cuts plain text, for the chunkers that need no headings. Queries are cut with it too."""
    full_spec = complete(spec)
    values = full_spec.parameters
    if full_spec.name == "recursive":
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        size, overlap = int(str(values["size"])), int(str(values["overlap"]))
        text_splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
        # A document of blanks alone gives no piece: it stays one empty passage, so that no document is lost.
        return lambda text: text_splitter.split_text(text) or [""]
    if full_spec.name == "tokens":
        return _window_splitter(int(str(values["size"])), int(str(values["stride"])), str(values["encoding"]))
    if full_spec.name == "none":
        return lambda text: [text]
    raise UserError(f"The chunker {full_spec.name!r} cannot cut a text without headings: take 'recursive' or 'tokens'.")


def _number_passages(document: Passage, parts: Iterable[tuple[str, str]]) -> list[Passage]:
    """Return the parts of a document as passages that are called ``DOCUMENT_NUMBER``."""
    return [
        Passage(
            id=f"{document.id}_{number}", document=document.document, title=title, text=text, corpus=document.corpus
        )
        for number, (title, text) in enumerate(parts)
    ]


def _window_splitter(size: int, stride: int, encoding: str) -> Splitter:
    """Return a splitter into windows of tokens, whose cuts are at beginnings of tokens."""
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


def paragraphs(title: str, text: str, short: int, longest: int) -> Iterator[tuple[str, str]]:
    """Yield the titles and texts of a Markdown document's paragraphs.

    A title is ``article -- section -- subtitle``; paragraphs below `short` characters are joined to the next of their
    section while the result stays below `longest` (MedRAG's StatPearls, Xiong et al. 2024).
    """
    levels: dict[int, str] = {}
    paragraph = ""
    has_yielded = False

    def _full_title() -> str:
        return " -- ".join(part for part in (title, *(levels[level] for level in sorted(levels))) if part)

    for block in _BLANK.split(text):
        for part in _parts(block):
            heading = _HEADING.fullmatch(part)
            if heading:
                if paragraph:
                    yield _full_title(), paragraph
                    has_yielded, paragraph = True, ""
                level = len(heading.group(1))
                levels = {other: name for other, name in levels.items() if other < level}
                levels[level] = heading.group(2).strip()
            elif (
                paragraph and (len(paragraph) < short or len(part) < short) and len(paragraph) + 1 + len(part) < longest
            ):
                paragraph = f"{paragraph} {part}"
            else:
                if paragraph:
                    yield _full_title(), paragraph
                    has_yielded = True
                paragraph = part
    if paragraph or not has_yielded:
        yield _full_title(), paragraph


def _parts(block: str) -> Iterator[str]:
    """Yield the headings of a block, and its other lines joined to paragraphs."""
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
