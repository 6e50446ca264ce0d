"""Corpora: JSON Lines of the field's layouts and folders of documents, read as a stream of passages.

A corpus is named ``sample`` (the one shipped with the package) or ``family:PATH``:

| family | layout | source of the fields |
|---|---|---|
| ``beir`` | a folder with ``corpus.jsonl``, or the file | ``_id``, ``title``, ``text`` (Thakur et al. 2021) |
| ``r2med`` | a folder with ``corpus.jsonl``, or the file | ``id``, ``text`` (R2MED's release) |
| ``medrag`` | a folder of ``*.jsonl`` files, or one | ``id``, ``title``, ``content``, ``PMID`` (Xiong et al. 2024) |
| ``files`` | a folder of documents, or one | :mod:`ragrounds.tools.documents`: text, Markdown, HTML, PDF, Word, NXML |
| ``jsonl`` | one file, or a folder of ``*.jsonl`` | any of these, and ``document`` for a part of a longer text |

Each file may end in ``.gz`` or ``.zst``. Reading is a stream: one line is in memory at a time.

``files[reading=medrag]:PATH`` reads NXML as MedRAG's program does, without tables and figures
(:mod:`ragrounds.tools.documents.jats`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.records import Passage
from ragrounds.base.specs import parse
from ragrounds.base.text import fault
from ragrounds.tools.documents import READINGS, is_document, kind_of, kinds, read_document
from ragrounds.tools.documents.found import DocumentFault
from ragrounds.tools.index.build_report import BuildEntry, BuildReport, Outcome, storable
from ragrounds.tools.jsonlines import ENDINGS, read_lines

FAMILIES = ("beir", "r2med", "medrag", "jsonl", "files")
SAMPLE = "sample"


@dataclass(frozen=True)
class CorpusSource:
    """Source of a corpus: a short name and its files, in the order of reading."""

    name: str
    files: tuple[Path, ...]
    root: Path | None = None
    """Folder that the ids of documents are relative to; ``None`` if the files are JSON Lines."""
    reading: str = "full"
    """Way in which documents are read: one of :data:`ragrounds.tools.documents.READINGS`."""
    other_files: tuple[BuildEntry, ...] = ()
    """Entries for the build report: other files in the folder, which are not read."""

    def stamp(self) -> str:
        """Return the paths, sizes and times of the files, and the entries of other files.

        Equal stamps are taken for equal content without reading it.
        """
        facts = [
            (storable(str(file.resolve())), (status := file.stat()).st_size, status.st_mtime_ns, status.st_ctime_ns)
            for file in self.files
        ]
        return msgspec.json.encode((facts, self.other_files)).decode() + (
            "" if self.reading == "full" else self.reading
        )


class BadLine(msgspec.Struct, frozen=True):
    """A line that could not be read, and the reason."""

    file: str
    line: int
    """Line number from 1; 0 for the file as a whole."""
    reason: str

    def __str__(self) -> str:
        location = f"line {self.line} of {self.file}" if self.line else self.file
        return f"{location}: {self.reason}"


class UnreadableLine(UserError):
    """Error for a line or a file that cannot be read, if the caller did not ask to skip such lines."""


class _Row(msgspec.Struct):
    """The fields that any of the layouts has. Other fields are ignored."""

    beir_id: str | int | None = msgspec.field(name="_id", default=None)
    id: str | int | None = None
    document: str | int | None = None
    title: str | None = None
    text: str | None = None
    content: str | None = None
    contents: str | None = None
    pmid: str | int | None = msgspec.field(name="PMID", default=None)
    """Id of MedRAG's PubMed, whose ids are positions in its files: the abstract that questions name as theirs."""


def is_source(corpus: str) -> bool:
    """Return True if the text names a source to read (``sample``, ``family:PATH``) and not an index built before."""
    return corpus == SAMPLE or _family(corpus)[0].partition("[")[0] in FAMILIES


def _family(corpus: str) -> tuple[str, str]:
    """Return the family, with the text in its brackets, and the path."""
    name, colon, path = corpus.partition(":")
    if "[" in name and "]" in corpus:
        name, _, path = corpus.partition("]:")
        return f"{name}]", path
    return (name, path) if colon else ("", "")


def corpora_of(corpus: str) -> list[str]:
    """Return the corpora that ``one+two`` names. A path that contains a ``+`` and exists is one corpus."""
    if "+" not in corpus or (is_source(corpus) and Path(_family(corpus)[1]).expanduser().exists()):
        return [corpus]
    return [part for part in corpus.split("+") if part]


def corpus_source(corpus: str) -> CorpusSource:
    """Find the files of ``sample`` or ``family:PATH``.

    Raises:
        UserError: the family or the path is unknown, or the path has nothing of that family's layout.
    """
    if corpus == SAMPLE:
        return CorpusSource(SAMPLE, (Path(str(resources.files("ragrounds"))) / "sample" / "corpus.jsonl",))
    family_text, rest = _family(corpus)
    family = family_text.partition("[")[0]
    if family not in FAMILIES:
        raise unknown("corpus", corpus, [SAMPLE, *(f"{name}:PATH" for name in FAMILIES)], "ragrounds index ls")
    reading = _reading_way(family_text)
    path = Path(rest).expanduser()
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"There is no {str(path)!r} to read as a {family} corpus.{nearest(path.name, siblings)}")
    files, entries = ((path,), []) if path.is_file() else _listed(path, family)
    if path.is_file() and family == "files" and not is_document(path):
        raise UserError(f"Cannot read {str(path)!r}: {kind_of(path)} are not read; expected {', '.join(kinds())}.")
    if not files:
        expected = _WANTED.get(family, "*.jsonl (or .gz, .zst)")
        contents = f" What is there: {'; '.join(BuildReport.of_entries(entries).lines(limit=3))}." if entries else ""
        raise UserError(f"The folder {str(path)!r} holds no {expected}: expected a {family} corpus.{contents}")
    stem = path if path.is_dir() else Path(path.name.split(".jsonl")[0])
    root = path if family == "files" else None
    return CorpusSource(stem.resolve().name, files, root, reading, tuple(entries))


def _reading_way(family_text: str) -> str:
    """Return the way of reading in a family's brackets."""
    spec = parse(family_text)
    reading = str(spec.parameters.get("reading", "full"))
    parameters = ["reading"] if spec.name == "files" else []
    for key in spec.parameters:
        if key not in parameters:
            offered = f"; expected {parameters[0]}={'|'.join(READINGS)}" if parameters else "; it takes none"
            raise UserError(f"The corpus family {spec.name!r} has no parameter {key!r}{offered}.")
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS, "")
    return reading


def guess_family(path: str) -> str:
    """Return ``family:PATH`` for a path without a family, by the files at the path."""
    if is_source(path) or ":" in path:
        return path
    location = Path(path).expanduser()
    if location.is_file():
        family = "jsonl" if any(location.name.endswith(f".jsonl{ending}") for ending in ENDINGS) else "files"
    elif _listed(location, "beir")[0]:
        family = "beir"
    else:
        family = "jsonl" if _listed(location, "jsonl")[0] else "files"
    return f"{family}:{path}"


_WANTED = dict.fromkeys(("beir", "r2med"), "corpus.jsonl (or .gz, .zst)") | {
    "files": "documents (.txt, .md, .html, .pdf, .docx, .nxml)"
}


def passages(
    origin: CorpusSource,
    *,
    bad: list[BadLine] | None = None,
    report: BuildReport | None = None,
    start: tuple[int, int] = (0, 0),
) -> Iterator[tuple[Passage, tuple[int, int]]]:
    """Read passages in order, each with the position after it (file number, lines read), to resume at later.

    Args:
        origin: Source of the corpus.
        bad: Lines that cannot be read are appended here and left out; with ``None`` the first is an error. Empty
            documents are left out in either case.
        report: Outcomes of files and lines are added here, and from the beginning also the source's other entries.
        start: Position that an earlier reading returned. Everything before it is skipped.

    Raises:
        Unreadable: a line, with its number, or a document cannot be read.
        UserError: a file does not fit its ending.
    """
    outcomes = BuildReport() if report is None else report
    if start == (0, 0):
        outcomes.add_entries(origin.other_files)
    if origin.root is not None:
        yield from _documents(origin, origin.root, bad, outcomes, start[0])
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
                passage = _to_passage(decode(line))
            except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
                wrong = BadLine(str(file), count, fault(problem))
                if bad is None:
                    raise UnreadableLine(f"Cannot read {wrong}. Repair it.") from None
                bad.append(wrong)
                outcomes.add(str(file), "skipped", wrong.reason, row=count)
                continue
            outcomes.rows["read"] = outcomes.rows.get("read", 0) + 1
            yield passage, (number, count)


def _documents(
    origin: CorpusSource, root: Path, bad: list[BadLine] | None, report: BuildReport, start: int
) -> Iterator[tuple[Passage, tuple[int, int]]]:
    """Yield a passage for each file. The position after it is the number of the next file."""

    for number, file in enumerate(origin.files[start:], start):
        name = str(file.relative_to(root)) if file != root else file.name
        try:
            passage, remarks = read_document(file, root, origin.reading)
        except (ValueError, OSError, EOFError, zlib.error, RecursionError, MemoryError) as problem:
            document_fault = problem if isinstance(problem, DocumentFault) else DocumentFault(fault(problem))
            if document_fault.outcome == "skipped":
                wrong = BadLine(storable(str(file)), 0, str(document_fault))
                if bad is None:
                    raise UnreadableLine(f"Cannot read {wrong}. Repair or remove it.") from None
                bad.append(wrong)
            report.add(name, document_fault.outcome, document_fault.reason, detail=document_fault.detail)
            continue
        report.add_read(name, remarks, passage.text)
        yield passage, (number + 1, 0)


def _to_passage(row: _Row) -> Passage:
    """Convert a row of any layout to a passage."""
    identity = row.beir_id if row.beir_id is not None else row.id
    if identity is None or identity == "":
        raise ValueError("it has no id; expected `_id` or `id`")
    text = row.text if row.text is not None else row.content if row.content is not None else row.contents
    if text is None:
        raise ValueError("it has no text; expected `text`, `content` or `contents`")
    document = next(candidate for candidate in (row.document, row.pmid, identity) if candidate is not None)
    return Passage(id=str(identity), document=str(document), title=row.title or "", text=text, corpus="")


def _listed(folder: Path, family: str) -> tuple[tuple[Path, ...], list[BuildEntry]]:
    """Return the files of a corpus in a folder, in their order, and entries for other files."""
    if family in ("beir", "r2med"):
        candidates = (folder / f"corpus.jsonl{ending}" for ending in ENDINGS)
        return tuple(file for file in candidates if file.is_file())[:1], []
    if family == "files":
        return _documents_in(folder)
    files: list[Path] = []
    entries: list[BuildEntry] = []
    for file in folder.rglob("*"):
        if file.is_file():
            if any(file.name.endswith(f".jsonl{ending}") for ending in ENDINGS):
                files.append(file)
            else:
                entries.append(BuildEntry(str(file), "unsupported", f"no JSON Lines ({file.suffix or 'no ending'})"))
    return tuple(sorted(files)), sorted(entries, key=lambda entry: entry.path)


def _documents_in(folder: Path) -> tuple[tuple[Path, ...], list[BuildEntry]]:
    """Return all documents below a folder. A link is followed only if it leads to a file inside the folder."""

    files: list[Path] = []
    entries: list[BuildEntry] = []
    inside = folder.resolve()

    def _note(path: Path, outcome: Outcome, reason: str, detail: str = "") -> None:
        entries.append(BuildEntry(str(path.relative_to(folder)), outcome, reason, detail))

    def _closed(problem: OSError) -> None:
        _note(Path(str(problem.filename)), "skipped", "the folder cannot be opened", problem.strerror or "")

    for parent, folders, names in os.walk(folder, onerror=_closed):
        for path in (Path(parent) / name for name in (*names, *folders)):
            if path.is_symlink() and (reason := _link_refusal(path, inside)):
                _note(path, "skipped", reason)
            elif path.is_dir():
                continue
            elif not path.is_file():
                _note(path, "skipped", "it is no file but a pipe, a socket or a device")
            elif is_document(path):
                files.append(path)
            else:
                _note(path, "unsupported", f"{kind_of(path)} are not read")
    return tuple(sorted(files)), sorted(entries, key=lambda entry: entry.path)


def _link_refusal(link: Path, inside: Path) -> str:
    """Return why a link is not followed; empty if it is followed."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop, in Python 3.12 and before
        return "it is a link that leads nowhere"
    if not target.is_relative_to(inside):
        return "it is a link that leads out of the folder"
    return "it is a link to a folder; files are read where they are" if target.is_dir() else ""
