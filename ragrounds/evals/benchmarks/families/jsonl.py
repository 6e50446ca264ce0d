"""A JSON Lines file of the user's own, one question a line; the shipped sample is written in it too.

Fields: ``question``, ``answer``, and ``id`` (where no line has one, questions are numbered from 1); for a choice
``options`` (a label → text object, or a list, which gets the letters A, B, …); all else is optional: ``type``
(``choice`` or ``long``, by default whichever the options say), ``group``, ``cluster``, ``language``, ``split``,
``documents`` (ids of the gold documents), ``facts`` (for each required fact, its accepted wordings), ``golden_answers``
(FlashRAG's form: the accepted wordings of a short answer, which a list under ``answer`` is too), ``metadata`` (texts by
name). Other fields are left out, since graphs see the metadata and an explanation or a source would give the answer
away.

A file with other names is read through a mapping: ``jsonl[question=stem,answer=answer_idx]:FILE``. Options in fields of
their own are listed (``options="opa;opb;opc;opd"``), and an answer that is a number counts from `first`
(``answer=cop,first=1``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field, structs

from ragrounds.base.errors import nearest
from ragrounds.base.files import broken, convert, read_jsonl, shown
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBER = re.compile(r"-?[0-9]{1,9}")


class _Line(Struct):
    question: str
    id: str | int | None = None
    """Unique in the file. Where no line has one, they are numbered from 1."""
    answer: str | int | list[str] = ""
    """Of a choice the label of the right option, its text, or its number; of a long question the reference answer, or
    its accepted wordings."""
    golden_answers: list[str] = field(default_factory=list)
    """The same in FlashRAG's form, where `answer` is not there."""
    type: Literal["choice", "long", ""] = ""
    """By default ``choice`` where there are options, else ``long``."""
    options: dict[str, str] | list[str] = field(default_factory=dict)
    """Label → text, or a list, which gets the letters A, B, …"""
    group: str = ""
    """Subject or specialty, for tables."""
    cluster: str = ""
    """Questions that are not independent, such as duplicates, share one: intervals are then as wide as they must be."""
    language: str = "en"
    """``en`` or ``zh``: in which language prompts are written."""
    split: str = "test"
    documents: list[str | int] = field(default_factory=list)
    """Ids of the gold documents: then retrieval is scored too."""
    facts: list[list[str]] = field(default_factory=list)
    """For each fact that an answer must hold, its accepted wordings."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Texts by name, for filters and groups."""


_FIELDS = tuple(_Line.__struct_fields__)


def items(source: BenchmarkSource) -> Iterator[Item]:
    """The questions of the file. Ids begin with the dataset's name, by default the file's.

    Raises:
        UserError: a line is broken.
    """
    path = source.path
    stem = source.dataset or path.name.removesuffix(".gz").removesuffix(".jsonl")
    records = ((place, _mapped(value, source, place)) for place, value in read_jsonl(path))
    return from_records(records, path, f"jsonl/{stem}", counted_from(source))


def _mapped(value: Any, source: BenchmarkSource, place: str) -> Any:
    """The record with this format's field names; as it is where nothing is mapped."""
    named = {name: source.text(name) for name in _FIELDS if name in source.parameters}
    if not isinstance(value, dict) or not named:
        return value
    record = {name: value[name] for name in _FIELDS if name in value and name not in named}
    for name, theirs in named.items():
        columns = [column.strip() for column in theirs.split(";")]
        lost = next((column for column in columns if column not in value), None)
        if lost is not None:
            raise broken(source.path, f"it has no field {shown(lost)} for {name}.{nearest(lost, value)}", place)
        record[name] = [value[column] for column in columns] if len(columns) > 1 else value[columns[0]]
    return record


def counted_from(source: BenchmarkSource) -> int | None:
    """The number of the first option, where answers are numbers (parameter ``first``)."""
    return source.number("first", 0) if "first" in source.parameters else None


def from_records(
    records: Iterable[tuple[str, Any]], path: Path, benchmark: str, first: int | None = None
) -> Iterator[Item]:
    """Questions from (place, record) pairs; `benchmark` is their canonical name, and an answer that is a number counts
    the options from `first`.

    Raises:
        UserError: a record is broken.
    """
    numbered = False
    for number, (place, value) in enumerate(records, 1):
        line = convert(value, _Line, path, place)
        if number == 1:
            numbered = line.id is None
        if numbered and line.id is not None:
            raise broken(path, "it has an `id`, and the lines before it have none", place)
        if line.id is None and not numbered:
            raise broken(path, "it has no field `id`", place)
        line.id = number if numbered else line.id
        yield _item(_worded(line, path, place), path, place, benchmark, first)


def _worded(line: _Line, path: Path, place: str) -> _Line:
    """The line with accepted wordings of its answer as the one fact that an answer must hold, the first of them as the
    reference answer."""
    wordings = line.answer if isinstance(line.answer, list) else [] if line.answer != "" else line.golden_answers
    if not wordings:
        return structs.replace(line, answer="") if isinstance(line.answer, list) else line
    if line.type == "choice" or line.options:
        raise broken(path, "the answer must be one option, not a list", place)
    return structs.replace(line, answer=wordings[0], facts=line.facts or [wordings])


def labelled(options: dict[str, str] | list[str]) -> dict[str, str]:
    """Options under labels: their own, or letters; numbers from 1 where the letters do not suffice."""
    if isinstance(options, dict):
        return options
    labels = LETTERS if len(options) <= len(LETTERS) else [str(number) for number in range(1, len(options) + 1)]
    return dict(zip(labels, options, strict=False))


def _label(line: _Line, options: dict[str, str], first: int | None, path: Path, place: str) -> str:
    """The label that an answer means: itself, that of the one option whose text it is, or by its number."""
    answer = str(line.answer)
    if first is not None and _NUMBER.fullmatch(answer):
        labels, index = list(options), int(answer) - first
        if not 0 <= index < len(labels):
            raise broken(path, f"the answer {answer} is no option, counted from `first`", place)
        return labels[index]
    same = [label for label, text in options.items() if text.strip() == answer.strip()]
    if answer in options:
        other = next((label for label in same if label != answer), None)
        if other is not None:
            what = (
                f"the answer {shown(answer)} is the label of {shown(options[answer])} and also the text of the "
                f"option {shown(other)}; use labels that are not the text of another option"
            )
            raise broken(path, what, place)
        return answer
    if len(same) > 1:
        what = f"the answer {shown(answer)} is the text of several options ({', '.join(map(shown, same))})"
        raise broken(path, f"{what}; give the label", place)
    return same[0] if same else answer


def _item(line: _Line, path: Path, place: str, benchmark: str, first: int | None) -> Item:
    kind = line.type or ("choice" if line.options else "long")
    options = labelled(line.options) if kind == "choice" else {}
    if isinstance(line.answer, int) and (first is None or kind == "long"):
        raise broken(path, "expected `str`, got `int` at answer", place)
    if kind == "choice" and line.answer == "":
        raise broken(path, "it has no field `answer`", place)
    if kind == "long" and not (str(line.answer).strip() or line.facts):
        raise broken(path, "a long-form question needs `answer` or `facts`", place)
    if any(not wordings or not all(wording.strip() for wording in wordings) for wordings in line.facts):
        raise broken(path, "each fact needs one or more wordings, none of them empty", place)
    if not str(line.id).strip():
        raise broken(path, "the id is empty", place)
    question = Question(
        id=f"{benchmark.rpartition('/')[2]}/{line.id}",
        benchmark=benchmark,
        text=line.question,
        kind=kind,
        split=line.split,
        options=options,
        group=line.group,
        cluster=line.cluster,
        language=line.language,
        metadata=line.metadata,
    )
    gold = Gold(
        question_id=question.id,
        answer=_label(line, options, first, path, place) if kind == "choice" else str(line.answer),
        documents=tuple(str(document) for document in line.documents),
        facts=tuple(tuple(wordings) for wordings in line.facts),
    )
    return Item(question, gold)


FAMILY = Family(name="jsonl", items=items, file="a JSON Lines file", parameters=(*_FIELDS, "first"), open=True)
