"""Corpora: JSON Lines of the field's layouts and folders of documents, read as a stream of passages.

A corpus is named ``sample`` (the one shipped with the package) or ``family:PATH``:

| family | layout | where the fields come from |
|---|---|---|
| ``beir`` | a folder with ``corpus.jsonl``, or the file | ``_id``, ``title``, ``text`` (Thakur et al. 2021) |
| ``r2med`` | a folder with ``corpus.jsonl``, or the file | ``id``, ``text`` (R2MED's release) |
| ``medrag`` | a folder of ``*.jsonl`` files, or one | ``id``, ``title``, ``content``, ``PMID`` (Xiong et al. 2024) |
| ``files`` | a folder of documents, or one | :mod:`ragrounds.tools.documents`: text, Markdown, HTML, PDF, NXML |
| ``jsonl`` | one file, or a folder of ``*.jsonl`` | any of these, and ``document`` for a part of a longer text |

Each file may end in ``.gz`` or ``.zst``. Reading is a stream: one line is in memory at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from ragrounds.errors import UserError, nearest, unknown
from ragrounds.records import Passage
from ragrounds.text import fault
from ragrounds.tools.jsonlines import ENDINGS, read_lines

FAMILIES = ("beir", "r2med", "medrag", "jsonl", "files")
SAMPLE = "sample"


@dataclass(frozen=True)
class CorpusSource:
    """Where a corpus is read from: a short name and its files, in the order in which they are read."""

    name: str
    files: tuple[Path, ...]
    root: Path | None = None
    """Where the files are documents: the folder that their ids are relative to; ``None``: they are JSON Lines."""

    def stamp(self) -> str:
        """Paths, sizes and times of the files: equal stamps are taken for equal content without reading it."""
        facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in self.files]
        return msgspec.json.encode(facts).decode()


class BadLine(msgspec.Struct, frozen=True):
    """A line that could not be read, and why."""

    file: str
    line: int
    """From 1; 0: the file as a whole."""
    reason: str

    def __str__(self) -> str:
        place = f"line {self.line} of {self.file}" if self.line else self.file
        return f"{place}: {self.reason}"


class UnreadableLine(UserError):
    """A line or a file that cannot be read, where nobody asked for such to be passed over."""


class _Row(msgspec.Struct):
    """The fields that any of the layouts has; the others are passed over."""

    beir_id: str | int | None = msgspec.field(name="_id", default=None)
    id: str | int | None = None
    document: str | int | None = None
    title: str | None = None
    text: str | None = None
    content: str | None = None
    contents: str | None = None
    pmid: str | int | None = msgspec.field(name="PMID", default=None)
    """Of MedRAG's PubMed, where ids are places in its files: the abstract that questions name as theirs."""


def is_source(corpus: str) -> bool:
    """Whether the text names a source to read (``sample``, ``family:PATH``) and not an index built before."""
    return corpus == SAMPLE or corpus.partition(":")[0] in FAMILIES


def corpora_of(corpus: str) -> list[str]:
    """The corpora that ``one+two`` names. A path that has a ``+`` in it and exists is one corpus."""
    if "+" not in corpus or (is_source(corpus) and Path(corpus.partition(":")[2]).expanduser().exists()):
        return [corpus]
    return [part for part in corpus.split("+") if part]


def corpus_source(corpus: str) -> CorpusSource:
    """Find the files of ``sample`` or ``family:PATH``.

    Raises:
        UserError: no such family, no such path, or nothing of that family's layout there.
    """
    if corpus == SAMPLE:
        return CorpusSource(SAMPLE, (Path(str(resources.files("ragrounds"))) / "sample" / "corpus.jsonl",))
    family, colon, rest = corpus.partition(":")
    if not colon or family not in FAMILIES:
        raise unknown("corpus", corpus, [SAMPLE, *(f"{name}:PATH" for name in FAMILIES)], "ragrounds index ls")
    path = Path(rest).expanduser()
    if not path.exists():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"There is no {str(path)!r} to read as a {family} corpus.{nearest(path.name, beside)}")
    files = (path,) if path.is_file() else _files_in(path, family)
    if not files:
        wanted = _WANTED.get(family, "*.jsonl (or .gz, .zst)")
        raise UserError(f"The folder {str(path)!r} holds no {wanted}: expected a {family} corpus.")
    stem = path if path.is_dir() else Path(path.name.split(".jsonl")[0])
    return CorpusSource(stem.resolve().name, files, path if family == "files" else None)


def guess_family(path: str) -> str:
    """``family:PATH`` for a path that was given without its family, by what is there."""
    if is_source(path) or ":" in path:
        return path
    there = Path(path).expanduser()
    if there.is_file():
        family = "jsonl" if any(there.name.endswith(f".jsonl{ending}") for ending in ENDINGS) else "files"
    elif _files_in(there, "beir"):
        family = "beir"
    else:
        family = "jsonl" if _files_in(there, "jsonl") else "files"
    return f"{family}:{path}"


_WANTED = dict.fromkeys(("beir", "r2med"), "corpus.jsonl (or .gz, .zst)") | {
    "files": "documents (.txt, .md, .html, .pdf, .nxml)"
}


def passages(
    origin: CorpusSource, *, bad: list[BadLine] | None = None, start: tuple[int, int] = (0, 0)
) -> Iterator[tuple[Passage, tuple[int, int]]]:
    """Read passages in order, each with the place after it (file number, lines read), to resume at later.

    Args:
        origin: Where to read.
        bad: Lines that cannot be read are appended here and left out; ``None``: the first is an error.
        start: A place that an earlier reading gave: what is before it is skipped.

    Raises:
        Unreadable: a line that cannot be read, with its number; a document that cannot.
        UserError: a file that is not what its ending says.
    """
    if origin.root is not None:
        yield from _documents(origin, origin.root, bad, start[0])
        return
    decode = msgspec.json.Decoder(_Row).decode
    for number, file in enumerate(origin.files):
        if number < start[0]:
            continue
        skip = start[1] if number == start[0] else 0
        for count, line in enumerate(read_lines(file), 1):
            if count <= skip or not line.strip():
                continue
            try:
                passage = _passage(decode(line))
            except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
                wrong = BadLine(str(file), count, fault(problem))
                if bad is None:
                    raise UnreadableLine(f"Cannot read {wrong}. Mend it.") from None
                bad.append(wrong)
                continue
            yield passage, (number, count)


def _documents(
    origin: CorpusSource, root: Path, bad: list[BadLine] | None, start: int
) -> Iterator[tuple[Passage, tuple[int, int]]]:
    """One passage a file; the place after it is the number of the next file."""
    from ragrounds.tools.documents import read_document

    for number, file in enumerate(origin.files[start:], start):
        try:
            passage = read_document(file, root)
        except (ValueError, OSError, EOFError, zlib.error, RecursionError) as problem:
            wrong = BadLine(str(file), 0, fault(problem))
            if bad is None:
                raise UnreadableLine(f"Cannot read {wrong}. Mend it, or take it away.") from None
            bad.append(wrong)
            continue
        yield passage, (number + 1, 0)


def _passage(row: _Row) -> Passage:
    identity = row.beir_id if row.beir_id is not None else row.id
    if identity is None or identity == "":
        raise ValueError("it has no id; expected `_id` or `id`")
    text = row.text if row.text is not None else row.content if row.content is not None else row.contents
    if text is None:
        raise ValueError("it has no text; expected `text`, `content` or `contents`")
    document = next(one for one in (row.document, row.pmid, identity) if one is not None)
    return Passage(id=str(identity), document=str(document), title=row.title or "", text=text, corpus="")


def _files_in(folder: Path, family: str) -> tuple[Path, ...]:
    if family in ("beir", "r2med"):
        named = (folder / f"corpus.jsonl{ending}" for ending in ENDINGS)
        return tuple(file for file in named if file.is_file())[:1]
    if family == "files":
        from ragrounds.tools.documents import is_document

        return tuple(sorted(file for file in folder.rglob("*") if file.is_file() and is_document(file)))
    found = [file for ending in ENDINGS for file in folder.rglob(f"*.jsonl{ending}") if file.is_file()]
    return tuple(sorted(found))
