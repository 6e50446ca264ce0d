"""``table``: rows under column names, in CSV, JSON Lines or a JSON array. The field of each column is guessed from its
name, reported, and changed by ``--map field=column``. FlashRAG's ``intermediate_data.json`` and frames of ragas and
DeepEval are such files too: their names are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Status
from ragrounds.extensions.exchange.importers.importer import (
    MOST_SECONDS,
    BadRow,
    ImportedRow,
    ImportedStep,
    Importer,
    ImportFile,
    Rows,
    bounded,
    dict_of,
    dicts_of,
    labels_for,
    number_of,
    passages_of,
    step_of_tool,
    sums_of,
    text_of,
    unpacked,
    usage_of,
)
from ragrounds.extensions.exchange.importers.records import read_records

_MANY = 20
"""Rows from which answers that are all right by their wording are doubted."""
_SEVERAL = 2
"""Rows from which a field that is dropped from all of them is doubted."""
_MAPS = {
    "tokens": "--map input_tokens=COLUMN --map output_tokens=COLUMN",
    "input_tokens": "--map input_tokens=COLUMN --map output_tokens=COLUMN",
    "seconds": "--map milliseconds={column} if these are milliseconds",
    "cost": "--map cost=COLUMN",
    "score": "--map score=COLUMN",
}
KNOWN: dict[str, str] = {
    "id": "custom_id example_id id realidx question_id questionid qid sample_id doc_id case_id task_id test_case_id "
    "idx index name",
    "question": "question input user_input query prompt stem problem question_text inputs.question inputs.input "
    "inputs.query",
    "options": "options choices inputs.options inputs.choices",
    "gold": "gold gold_answer golden_answers answer_idx correct_answer reference reference_answer ground_truth "
    "ground_truths target expected_output expected label correct_option reference.answer reference.output "
    "reference.reference reference.label answer",
    "answer": "response.body.choices.0.message.content "
    "predicted_answer predicted prediction pred model_answer response actual_output output.pred output "
    "completion generated_answer model_output generation reply predictions outputs.answer outputs.output "
    "outputs.response outputs.result answer",
    "passages": "retrieved_contexts retrieval_context contexts passages retrieved_documents output.retrieval_result "
    "retrieval_result documents docs context source_documents",
    "input_tokens": "prompt_tokens input_tokens tokens_in usage.prompt_tokens usage.input_tokens "
    "token_usage.prompt_tokens token_usage.input_tokens tokens.input "
    "response.body.usage.prompt_tokens",
    "output_tokens": "completion_tokens output_tokens tokens_out usage.completion_tokens usage.output_tokens "
    "token_usage.completion_tokens token_usage.output_tokens tokens.output "
    "response.body.usage.completion_tokens",
    "tokens": "tokens total_tokens usage.total_tokens token_usage.total_tokens",
    "seconds": "seconds latency_s latency_seconds duration_s time_elapsed elapsed_seconds elapsed latency duration "
    "completion_time execution_time",
    "milliseconds": "latency_ms milliseconds duration_ms latencyms elapsed_ms",
    "cost": "cost cost_usd total_cost price_usd token_cost",
    "choice": "",
    "steps": "steps trajectory messages",
    "agent": "agent system model method model_name system_name experiment",
    "dataset": "dataset benchmark subset dataset_name",
    "epoch": "epoch trial repeat repetition",
    "score": "score correct is_correct accuracy passed success exact_match output.metric_score.em "
    "output.metric_score.acc em acc feedback.correct feedback.correctness",
    "error": "error error_message exception",
}
"""Field → its usual column names, the most certain first. A dot leads into an object."""
_LOOKED_AT = 200
_WRAPPERS = ("response", "body")
"""Objects around a server's reply, in the output of batches (OpenAI, `vllm run-batch`); they count as no level."""
_LEAST = 2


def _plain(name: str) -> str:
    return (
        re.sub(r"\(?\b(?:s|sec|secs|usd)\)?$", "", re.sub(r"[\W_]+", "_", name.lower()).strip("_")).strip("_") or name
    )


def flat(record: Mapping[str, Any], before: str = "", deep: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record. Those of an object inside are named by both, as in ``usage.input_tokens``.

    Of a model's ``choices`` the first is followed (``response.body.choices.0.message.content``).
    """
    for key, value in record.items():
        yield f"{before}{key}", value
        if isinstance(value, dict) and deep > 1:
            yield from flat(value, f"{before}{key}.", deep - (key not in _WRAPPERS))
        elif key == "choices" and isinstance(value, list) and value and isinstance(value[0], dict):
            yield from flat(value[0], f"{before}{key}.0.", 2)


def guess_fields(columns: list[str]) -> dict[str, str]:
    """Guess field → column from the columns' names. Each column is used once, for its most certain field."""
    plain = {name: ".".join(map(_plain, name.split("."))) for name in columns}
    ranked = sorted(
        (names.split().index(plain_name), list(KNOWN).index(field), field, column)
        for column, plain_name in plain.items()
        for field, names in KNOWN.items()
        if plain_name in names.split()
    )
    column_by_field: dict[str, str] = {}
    for _, _, field, column in ranked:
        if field not in column_by_field and column not in column_by_field.values():
            column_by_field[field] = column
    if (
        "answer" not in column_by_field and column_by_field.get("gold") and plain[column_by_field["gold"]] == "answer"
    ):  # it is the only answer
        column_by_field["answer"] = column_by_field.pop("gold")
    return column_by_field


def map_columns(file: ImportFile, columns: list[str]) -> dict[str, str]:
    """Return the map of fields: guessed, then changed as the user set it.

    Raises:
        UserError: an unknown field or column; no column of answers.
    """
    for field, column in file.fields.items():
        if field not in KNOWN:
            raise UserError(f"--map {field}={column}: there is no field {field!r}.{nearest(field, KNOWN)}")
        if column and column not in columns:
            raise UserError(f"--map {field}={column}: {file.path} has no column {column!r}.{nearest(column, columns)}")
    free = [column for column in columns if column not in file.fields.values()]
    column_by_field = {field: column for field, column in guess_fields(free).items() if field not in file.fields}
    column_by_field |= {field: column for field, column in file.fields.items() if column}
    if "answer" not in column_by_field:
        raise UserError(f"{file.path}: which column holds the answers? Its columns: {', '.join(columns[:30])}. "
                        "Say --map answer=COLUMN.")  # fmt: skip
    return column_by_field


def _rows(file: ImportFile) -> Rows:
    stream = read_records(file.path)
    first_records = list(islice(stream, _LOOKED_AT))
    columns = list(
        dict.fromkeys(name for record in first_records if not isinstance(record, BadRow) for name, _ in flat(record[1]))
    )
    if not columns:
        yield from (record for record in first_records if isinstance(record, BadRow))
        return
    fields = map_columns(file, columns)
    used = {column.partition(".")[0] for column in fields.values()} | set(fields.values())
    unread = [column for column in columns if "." not in column and column not in used]
    mapping_text = ", ".join(f"{field} = {column}" for field, column in fields.items())
    file.say(f"{file.path.name}: {mapping_text}" + (f"; not read: {', '.join(unread[:12])}" if unread else "") + ".")
    signs: Counter[str] = Counter()
    rows = [record if isinstance(record, BadRow) else row_of(record[1], fields, record[0]) for record in first_records]
    first_epoch = min((row.epoch for row in rows if isinstance(row, ImportedRow)), default=0)
    if first_epoch == 1:
        file.say(f"{file.path.name}: epochs are counted from 1.")
    later = (record if isinstance(record, BadRow) else row_of(record[1], fields, record[0]) for record in stream)
    for row in chain(rows, later):
        if isinstance(row, ImportedRow):
            signs.update(["row", *row.dropped, *(["right"] if row.gold and row.answer == row.gold else [])])
            if first_epoch == 1 and not row.epoch:
                raise UserError(f"{file.path.name}, {row.place}: the epoch is 0, and the first rows count from 1.")
            row = replace(row, epoch=row.epoch - (first_epoch == 1))
        yield row
    _check_columns(file, fields, signs)


def _check_columns(file: ImportFile, fields: Mapping[str, str], signs: Counter[str]) -> None:
    """Check that no column was taken for another field, by signs that all rows have; fields that the user mapped are
    right. A figure that was dropped from every row, or right answers that were read as the system's, would be a table
    without a warning.

    Raises:
        UserError: the columns do not hold what their names say; the message has the ``--map`` that helps.
    """
    n, answer = signs["row"], fields["answer"]
    if n >= _MANY and signs["right"] == n and "answer" not in file.fields:
        raise UserError(
            f"{file.path.name}: the answers ({answer}) of all {n:,} rows are the right answers ({fields['gold']}). Say "
            f"which column holds the system's: --map answer=COLUMN; --map answer={answer} if it is this."
        )
    for figure, maps in _MAPS.items():
        if n >= _SEVERAL and signs[figure] == n and figure not in file.fields:
            column = fields.get(figure) or fields.get("tokens", figure)
            raise UserError(
                f"{file.path.name}: {column} cannot be read as {figure.replace('_', ' ')} in any of {n:,} rows. Say "
                f"{maps.format(column=column)}, or --map {figure}= to leave it out."
            )


def row_of(record: Mapping[str, Any], fields: Mapping[str, str], location: str) -> ImportedRow | BadRow:
    """Return the row of a record, by a map of fields."""
    values = dict(flat(record)) if any("." in column for column in fields.values()) else record
    if fields["answer"] not in values:
        return BadRow(location, f"it has no {fields['answer']}")
    return row_with({field: values.get(column) for field, column in fields.items()}, location, fields.get("score", ""))


def row_with(values: Mapping[str, Any], location: str, scored_by: str = "") -> ImportedRow:
    """Return the row of these fields' values, whatever they are. Missing tokens and dollars are the sums of its
    steps."""
    steps = steps_of(values.get("steps"))
    usage, usage_note = usage_of(values.get("input_tokens"), values.get("output_tokens"))
    tokens_field = "input_tokens"
    if usage is None and not usage_note and values.get("tokens") not in (None, ""):
        tokens_field = "tokens"
        usage_note = "it gives tokens in all alone: how many were input and output is not known"
    seconds, time_note = bounded(values.get("seconds"), MOST_SECONDS, "time")
    if seconds is None and not time_note:
        milliseconds, time_note = bounded(values.get("milliseconds"), MOST_SECONDS * 1000, "time")
        seconds = None if milliseconds is None else milliseconds / 1000
    cost, cost_note = bounded(values.get("cost"), 1e6, "cost")
    score, score_note = bounded(values.get("score"), 1, "score")
    notes = {tokens_field: usage_note, "seconds": time_note, "cost": cost_note, "score": score_note}
    tokens, dollars = sums_of(steps)
    error, epoch = text_of(values.get("error")), number_of(values.get("epoch"))
    default_status: Status = "failed" if error else "completed"
    gold = unpacked(values.get("gold"))
    wordings = tuple(map(text_of, gold)) if isinstance(gold, list) else ()
    return ImportedRow(
        place=location,
        agent=text_of(values.get("agent"))[:200],
        variant=text_of(values.get("variant"))[:200],
        dataset=text_of(values.get("dataset"))[:200].rpartition("/")[2],
        id=text_of(values.get("id")),
        question=text_of(values.get("question")),
        options=labels_for(values.get("options")),
        gold=wordings[0] if wordings else text_of(values.get("gold")),
        wordings=wordings[1:] and wordings,
        answer=text_of(values.get("answer")),
        choice=text_of(values.get("choice")),
        epoch=max(0, int(epoch)) if epoch is not None else 0,
        passages=passages_of(values.get("passages")),
        steps=steps,
        usage=usage if usage or usage_note else tokens,
        seconds=seconds,
        cost=cost if cost is not None or cost_note else dollars,
        score=score,
        scored_by=scored_by,
        status=values["status"] if values.get("status") in get_args(Status) else default_status,
        reason=error[:300],
        notes=tuple(filter(None, notes.values())),
        dropped=tuple(field for field, note in notes.items() if note),
    )


Values: TypeAlias = dict[str, Any]
"""Field → value."""


def rows_with(
    values: Callable[[Values, ImportFile, dict[str, str]], Values | str | None], *places: str
) -> Callable[[ImportFile], Rows]:
    """Return the reader of a form that is a table once the values of each row are found.

    Args:
        values: function that returns the values of a record, or a text with the reason why it cannot be read, or
            ``None`` if it is no row. Its last argument keeps what was seen in earlier records.
        places: keys of the rows in a record that contains many.
    """

    def _rows(file: ImportFile) -> Rows:
        seen: dict[str, str] = {}
        for entry in read_records(file.path):
            if isinstance(entry, BadRow):
                yield entry
                continue
            fields = dict(flat(entry[1])) if places else {}
            nested_rows = next((fields[path] for path in places if isinstance(fields.get(path), list)), None)
            for number, record in enumerate([entry[1]] if nested_rows is None else nested_rows, 1):
                location = entry[0] if nested_rows is None else f"result {number}"
                row_values = values(record, file, seen) if isinstance(record, dict) else "a JSON object was expected"
                if isinstance(row_values, str):
                    yield BadRow(location, row_values)
                elif row_values is not None:
                    yield row_with(row_values, location, text_of(row_values.get("scored_by") or "score"))

    return _rows


def steps_of(value: object) -> tuple[ImportedStep, ...]:
    """Return the steps in a list of a chat's messages, or of steps with a name and a text. A tool's output is named by
    the call that it answers."""
    steps, calls = list[ImportedStep](), dict[str, Mapping[str, Any]]()
    for message in value if isinstance(value, list) else []:
        if isinstance(message, ImportedStep):
            steps.append(message)
            continue
        if not isinstance(message, dict):
            steps.append(ImportedStep(kind="tool", text=text_of(message)))
            continue
        calls |= {text_of(call.get("id")): call for call in dicts_of(message.get("tool_calls"))}
        role = text_of(message.get("role") or message.get("type") or message.get("source"))
        text = message.get("content", message.get("output", message.get("text")))
        if role in ("assistant", "ai", "agent"):
            steps.append(ImportedStep(kind="model", name=text_of(message.get("name")), text=text_of(text)))
        elif role not in ("system", "user", "human", "developer"):
            call = calls.get(text_of(message.get("tool_call_id")), {})
            call = {**call, **dict_of(call.get("function"))}
            name = text_of(call.get("name") or message.get("name") or message.get("tool") or role)
            steps.append(step_of_tool(name, unpacked(call.get("arguments", "")), text))
    return tuple(steps)


TABLE = Importer(
    name="table",
    summary="CSV, JSON Lines or a JSON array with any names; FlashRAG's intermediate_data.json, frames of ragas and "
    "DeepEval.",
    recognises=lambda file: (
        (file.many or bool(file.fields) or "custom_id" in file.first) and len(list(flat(file.first))) >= _LEAST
    ),
    rows=_rows,
    general=True,
)
