"""A user's JSON Lines file, one question per line. The shipped sample has this form too.

Fields: ``question``, ``answer``, and ``id`` (if no line has one, questions are numbered from 1); for a choice
``options`` (a label → text object, or a list, which gets the letters A, B, …); all other fields are optional: ``type``
(``choice`` or ``long``, by default ``choice`` if there are options), ``group``, ``cluster``, ``language``, ``split``,
``documents`` (ids of the gold documents), ``facts`` (for each required fact, its accepted wordings), ``golden_answers``
(FlashRAG's form: the accepted wordings of a short answer, which a list under ``answer`` is too), ``metadata`` (texts by
name). Other fields are left out: graphs see the metadata, and an explanation or a source would reveal the answer.

A file with other names is read through a mapping: ``jsonl[question=stem,answer=answer_idx]:FILE``. Options in separate
fields are listed (``options="opa;opb;opc;opd"``), and an answer that is a number counts from `first`
(``answer=cop,first=1``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field, structs

from ragrounds.base.errors import nearest
from ragrounds.base.files import broken, convert, quote_value, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.base.text import safe
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBER = re.compile(r"-?[0-9]{1,9}")


class _Line(Struct):
    question: str
    id: str | int | float | None = None
    """Id, unique in the file; ``2.0`` of pandas is 2. If no line has one, lines are numbered from 1."""
    answer: str | int | list[str] = ""
    """Answer of a choice: the label of the right option, its text, or its number.

    Answer of a long question: the reference answer, or its accepted wordings.
    """
    golden_answers: list[str] = field(default_factory=list)
    """Accepted wordings of the answer in FlashRAG's form, used if `answer` is missing."""
    type: Literal["choice", "long", ""] = ""
    """Kind of the question. By default ``choice`` if there are options, else ``long``."""
    options: dict[str, str] | list[str] = field(default_factory=dict)
    """Options: label → text, or a list, which gets the letters A, B, …"""
    group: str = ""
    """Subject or specialty, for tables."""
    cluster: str = ""
    """Cluster of questions that are not independent, such as duplicates. Intervals are then as wide as they must be."""
    language: str = "en"
    """Language of the prompts, ``en`` or ``zh``."""
    split: str = "test"
    documents: list[str | int] = field(default_factory=list)
    """Ids of the gold documents. With these, retrieval is scored too."""
    facts: list[list[str]] = field(default_factory=list)
    """Accepted wordings of each fact that an answer must contain."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Texts by name, for filters and groups."""


_FIELDS = tuple(_Line.__struct_fields__)


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the questions of the file. Ids begin with the dataset's name, by default the file's.

    Raises:
        UserError: a line is broken.
    """
    path = source.path
    stem = source.dataset or path.name.removesuffix(".gz").removesuffix(".jsonl")
    records = ((location, _read(value, source, location)) for location, value in read_jsonl(path))
    return from_records(records, path, f"jsonl/{stem}", counted_from(source))


def _read(value: Any, source: BenchmarkSource, location: str) -> Any:
    record = _mapped(value, source, location)
    if isinstance(value, dict):
        check_options_are_read(record, value, source, location)
    return record


def _mapped(value: Any, source: BenchmarkSource, location: str) -> Any:
    """Return the record with this format's field names, or unchanged if nothing is mapped."""
    if not source.parameters:
        return value
    mapping = {name: source.text(name) for name in _FIELDS if name in source.parameters}
    if not isinstance(value, dict) or not mapping:
        return value
    record = {name: value[name] for name in _FIELDS if name in value and name not in mapping}
    for name, source_fields in mapping.items():
        columns = [column.strip() for column in source_fields.split(";")]
        missing_column = next((column for column in columns if column not in value), None)
        if missing_column is not None:
            raise broken(
                source.path,
                f"it has no field {quote_value(missing_column)} for {name}.{nearest(missing_column, value)}",
                location,
            )
        record[name] = [value[column] for column in columns] if len(columns) > 1 else value[columns[0]]
    return record


def check_options_are_read(
    record: Mapping[str, object], fields: Mapping[str, object], source: BenchmarkSource, location: str
) -> None:
    """Check that the answer of a record without options is not the name of a field that is not read: it would be the
    letter of an option. `fields` are those of the file.

    Raises:
        UserError: it is.
    """
    answer = record.get("answer")
    if record.get("options") or not isinstance(answer, str) or answer not in fields:
        return
    read = {*_FIELDS, *(column.strip() for name in _FIELDS for column in source.text(name).split(";"))}
    if answer not in read:
        problem = f"the answer {quote_value(answer)} is the name of a field that is not read"
        # A longer name, such as topic beside A and B, is no option's.
        options = safe(";".join(name for name in fields if name not in read and len(name) == len(answer)), 100)
        raise broken(source.path, f'{problem}. Say which fields have the options, as options="{options}"', location)


def counted_from(source: BenchmarkSource) -> int | None:
    """Return the number of the first option if answers are numbers (parameter ``first``), else ``None``."""
    return source.number("first", 0) if "first" in source.parameters else None


def from_records(
    records: Iterable[tuple[str, Any]], path: Path, benchmark: str, first: int | None = None
) -> Iterator[Item]:
    """Yield questions from (location, record) pairs. `benchmark` is their canonical name; an answer that is a number
    counts the options from `first`.

    Raises:
        UserError: a record is broken.
    """
    without_ids = False
    for number, (location, value) in enumerate(records, 1):
        line = convert(value, _Line, path, location)
        if number == 1:
            without_ids = line.id is None
        if without_ids and line.id is not None:
            raise broken(path, "it has an `id`, and the lines before it have none", location)
        if line.id is None and not without_ids:
            raise broken(path, "it has no field `id`", location)
        if isinstance(line.id, float) and line.id.is_integer():
            line.id = int(line.id)
        line.id = number if without_ids else line.id
        yield _item(_with_wordings(line, path, location), path, location, benchmark, first)


def _with_wordings(line: _Line, path: Path, location: str) -> _Line:
    """Return the line with the accepted wordings of its answer as a fact, and the first of them as the reference
    answer.
    """
    wordings = line.answer if isinstance(line.answer, list) else [] if line.answer != "" else line.golden_answers
    if not wordings:
        return structs.replace(line, answer="") if isinstance(line.answer, list) else line
    if line.type == "choice" or line.options:
        raise broken(path, "the answer must be one option, not a list", location)
    return structs.replace(line, answer=wordings[0], facts=line.facts or [wordings])


def labelled(options: dict[str, str] | list[str]) -> dict[str, str]:
    """Return the options under labels: their own, or letters, or numbers from 1 if the letters do not suffice."""
    if isinstance(options, dict):
        return options
    labels = LETTERS if len(options) <= len(LETTERS) else [str(number) for number in range(1, len(options) + 1)]
    return dict(zip(labels, options, strict=False))


def _label(line: _Line, options: dict[str, str], first: int | None, path: Path, location: str) -> str:
    """Return the label that an answer means: the answer itself, the label of the only option with this text, or by its
    number."""
    answer = str(line.answer)
    if first is not None and _NUMBER.fullmatch(answer):
        labels, index = list(options), int(answer) - first
        if not 0 <= index < len(labels):
            raise broken(path, f"the answer {answer} is no option, counted from `first`", location)
        return labels[index]
    if answer in options:
        for other, text in options.items():
            if other != answer and text.strip() == answer.strip():
                problem = (
                    f"the answer {quote_value(answer)} is the label of {quote_value(options[answer])} and also the "
                    f"text of the option {quote_value(other)}; use labels that are not the text of another option"
                )
                raise broken(path, problem, location)
        return answer
    matching_labels = [label for label, text in options.items() if text.strip() == answer.strip()]
    if len(matching_labels) > 1:
        problem = (
            f"the answer {quote_value(answer)} is the text of several options "
            f"({', '.join(map(quote_value, matching_labels))})"
        )
        raise broken(path, f"{problem}; give the label", location)
    return matching_labels[0] if matching_labels else answer


def _item(line: _Line, path: Path, location: str, benchmark: str, first: int | None) -> Item:
    kind = line.type or ("choice" if line.options else "long")
    options = labelled(line.options) if kind == "choice" else {}
    if isinstance(line.answer, int) and (first is None or kind == "long"):
        remedy = (
            "Of a choice, say which field has the options and which number the first of them has, as "
            "options=choices,first=0; put other answers in quotes"
        )
        raise broken(path, f"the answer is a number, {line.answer}. {remedy}", location)
    if kind == "choice" and line.answer == "":
        raise broken(path, "it has no field `answer`", location)
    if kind == "long" and not (str(line.answer).strip() or line.facts):
        raise broken(path, "a long-form question needs `answer` or `facts`", location)
    if line.facts and any(not wordings or not all(wording.strip() for wording in wordings) for wordings in line.facts):
        raise broken(path, "each fact needs one or more wordings, none of them empty", location)
    if not str(line.id).strip():
        raise broken(path, "the id is empty", location)
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
        answer=_label(line, options, first, path, location) if kind == "choice" else str(line.answer),
        documents=tuple(map(str, line.documents)),
        facts=tuple(map(tuple, line.facts)),
    )
    return Item(question, gold)


FAMILY = Family(name="jsonl", items=items, file="a JSON Lines file", parameters=(*_FIELDS, "first"), open=True)
