"""Corpora: JSON Lines of the field's layouts and folders of documents, read as a stream of passages.

A corpus is named ``sample`` (the one shipped with the package) or ``family:PATH``:

| family | layout | where the fields come from |
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
    """Where a corpus is read from: a short name and its files, in the order in which they are read."""

    name: str
    files: tuple[Path, ...]
    root: Path | None = None
    """Where the files are documents: the folder that their ids are relative to; ``None``: they are JSON Lines."""
    reading: str = "full"
    """How documents are read: one of :data:`ragrounds.tools.documents.READINGS`."""
    found: tuple[BuildEntry, ...] = ()
    """What was met beside the files and is not read, for the build report."""

    def stamp(self) -> str:
        """Paths, sizes and times of the files, and what lies beside them: equal stamps are taken for equal content
        without reading it."""
        facts = [
            (storable(str(file.resolve())), (held := file.stat()).st_size, held.st_mtime_ns, held.st_ctime_ns)
            for file in self.files
        ]
        return msgspec.json.encode((facts, self.found)).decode() + ("" if self.reading == "full" else self.reading)


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
    return corpus == SAMPLE or _family(corpus)[0].partition("[")[0] in FAMILIES


def _family(corpus: str) -> tuple[str, str]:
    """The family, with what stands in its brackets, and the path."""
    name, colon, path = corpus.partition(":")
    if "[" in name and "]" in corpus:
        name, _, path = corpus.partition("]:")
        return f"{name}]", path
    return (name, path) if colon else ("", "")


def corpora_of(corpus: str) -> list[str]:
    """The corpora that ``one+two`` names. A path that has a ``+`` in it and exists is one corpus."""
    if "+" not in corpus or (is_source(corpus) and Path(_family(corpus)[1]).expanduser().exists()):
        return [corpus]
    return [part for part in corpus.split("+") if part]


def corpus_source(corpus: str) -> CorpusSource:
    """Find the files of ``sample`` or ``family:PATH``.

    Raises:
        UserError: no such family, no such path, or nothing of that family's layout there.
    """
    if corpus == SAMPLE:
        return CorpusSource(SAMPLE, (Path(str(resources.files("ragrounds"))) / "sample" / "corpus.jsonl",))
    given, rest = _family(corpus)
    family = given.partition("[")[0]
    if family not in FAMILIES:
        raise unknown("corpus", corpus, [SAMPLE, *(f"{name}:PATH" for name in FAMILIES)], "ragrounds index ls")
    reading = _reading(given)
    path = Path(rest).expanduser()
    if not path.exists():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"There is no {str(path)!r} to read as a {family} corpus.{nearest(path.name, beside)}")
    files, found = ((path,), []) if path.is_file() else _listed(path, family)
    if path.is_file() and family == "files":
        _must_be_document(path)
    if not files:
        wanted = _WANTED.get(family, "*.jsonl (or .gz, .zst)")
        what = f" What is there: {'; '.join(BuildReport.of_entries(found).lines(most=3))}." if found else ""
        raise UserError(f"The folder {str(path)!r} holds no {wanted}: expected a {family} corpus.{what}")
    stem = path if path.is_dir() else Path(path.name.split(".jsonl")[0])
    root = path if family == "files" else None
    return CorpusSource(stem.resolve().name, files, root, reading, tuple(found))


def _reading(given: str) -> str:

    spec = parse(given)
    wanted = str(spec.parameters.get("reading", "full"))
    known = ["reading"] if spec.name == "files" else []
    for key in spec.parameters:
        if key not in known:
            offered = f"; expected {known[0]}={'|'.join(READINGS)}" if known else "; it takes none"
            raise UserError(f"The corpus family {spec.name!r} has no parameter {key!r}{offered}.")
    if wanted not in READINGS:
        raise unknown("reading", wanted, READINGS, "")
    return wanted


def _must_be_document(path: Path) -> None:

    if not is_document(path):
        raise UserError(f"Cannot read {str(path)!r}: {kind_of(path)} are not read; expected {', '.join(kinds())}.")


def guess_family(path: str) -> str:
    """``family:PATH`` for a path that was given without its family, by what is there."""
    if is_source(path) or ":" in path:
        return path
    there = Path(path).expanduser()
    if there.is_file():
        family = "jsonl" if any(there.name.endswith(f".jsonl{ending}") for ending in ENDINGS) else "files"
    elif _listed(there, "beir")[0]:
        family = "beir"
    else:
        family = "jsonl" if _listed(there, "jsonl")[0] else "files"
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
    """Read passages in order, each with the place after it (file number, lines read), to resume at later.

    Args:
        origin: Where to read.
        bad: Lines that cannot be read are appended here and left out; ``None``: the first is an error. Empty documents
            are left out in either case.
        report: What becomes of each file and line is added here; from the beginning also what was found beside them.
        start: A place that an earlier reading gave: what is before it is skipped.

    Raises:
        Unreadable: a line that cannot be read, with its number; a document that cannot.
        UserError: a file that is not what its ending says.
    """
    told = BuildReport() if report is None else report
    if start == (0, 0):
        told.add_entries(origin.found)
    if origin.root is not None:
        yield from _documents(origin, origin.root, bad, told, start[0])
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
                    raise UnreadableLine(f"Cannot read {wrong}. Repair it.") from None
                bad.append(wrong)
                told.add(str(file), "skipped", wrong.reason, row=count)
                continue
            told.rows["read"] = told.rows.get("read", 0) + 1
            yield passage, (number, count)


def _documents(
    origin: CorpusSource, root: Path, bad: list[BadLine] | None, report: BuildReport, start: int
) -> Iterator[tuple[Passage, tuple[int, int]]]:
    """One passage a file; the place after it is the number of the next file."""

    for number, file in enumerate(origin.files[start:], start):
        name = str(file.relative_to(root)) if file != root else file.name
        try:
            passage, remarks = read_document(file, root, origin.reading)
        except (ValueError, OSError, EOFError, zlib.error, RecursionError, MemoryError) as problem:
            why = problem if isinstance(problem, DocumentFault) else DocumentFault(fault(problem))
            if why.outcome == "skipped":
                wrong = BadLine(storable(str(file)), 0, str(why))
                if bad is None:
                    raise UnreadableLine(f"Cannot read {wrong}. Repair or remove it.") from None
                bad.append(wrong)
            report.add(name, why.outcome, why.reason, detail=why.detail)
            continue
        report.add_read(name, remarks, passage.text)
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


def _listed(folder: Path, family: str) -> tuple[tuple[Path, ...], list[BuildEntry]]:
    """The files of a corpus in a folder, in their order, and what else is there."""
    if family in ("beir", "r2med"):
        named = (folder / f"corpus.jsonl{ending}" for ending in ENDINGS)
        return tuple(file for file in named if file.is_file())[:1], []
    if family == "files":
        return _documents_in(folder)
    files: list[Path] = []
    found: list[BuildEntry] = []
    for file in folder.rglob("*"):
        if file.is_file():
            if any(file.name.endswith(f".jsonl{ending}") for ending in ENDINGS):
                files.append(file)
            else:
                found.append(BuildEntry(str(file), "unsupported", f"no JSON Lines ({file.suffix or 'no ending'})"))
    return tuple(sorted(files)), sorted(found, key=lambda one: one.path)


def _documents_in(folder: Path) -> tuple[tuple[Path, ...], list[BuildEntry]]:
    """All documents below a folder. A link is followed where it leads to a file inside the folder, and nowhere else."""

    files: list[Path] = []
    found: list[BuildEntry] = []
    inside = folder.resolve()

    def _note(path: Path, outcome: Outcome, reason: str, detail: str = "") -> None:
        found.append(BuildEntry(str(path.relative_to(folder)), outcome, reason, detail))

    def _closed(problem: OSError) -> None:
        _note(Path(str(problem.filename)), "skipped", "the folder cannot be opened", problem.strerror or "")

    for place, folders, names in os.walk(folder, onerror=_closed):
        for path in (Path(place) / name for name in (*names, *folders)):
            if path.is_symlink() and (reason := _refused(path, inside)):
                _note(path, "skipped", reason)
            elif path.is_dir():
                continue
            elif not path.is_file():
                _note(path, "skipped", "it is no file but a pipe, a socket or a device")
            elif is_document(path):
                files.append(path)
            else:
                _note(path, "unsupported", f"{kind_of(path)} are not read")
    return tuple(sorted(files)), sorted(found, key=lambda one: one.path)


def _refused(link: Path, inside: Path) -> str:
    """Why a link is not followed."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop, in Python 3.12 and before
        return "it is a link that leads nowhere"
    if not target.is_relative_to(inside):
        return "it is a link that leads out of the folder"
    return "it is a link to a folder; files are read where they are" if target.is_dir() else ""
