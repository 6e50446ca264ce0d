"""``inspect``: logs of Inspect (UK AISI), ``.eval`` or ``.json``, log version 2.

Each sample is an answer: its output's text, its first score, the tokens of its models, its working time, its events as
steps. A sample without a score failed, with the log's reason. An ``.eval`` is a zip whose members are read one at a
time, up to a maximum size; those of newer versions are compressed by zstd (method 93), which Python's zipfile does not
know before 3.14. Python's zip reader finds the members, and never runs or extracts anything.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

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
    number_of,
    text_of,
    usage_of,
)
from ragrounds.extensions.exchange.importers.records import LARGEST_RECORD, Record, parsed, read_records
from ragrounds.extensions.exchange.importers.table import row_with

_ZSTD = 93
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's letters for correct, incorrect, partial and no answer."""


def _recognises(file: ImportFile) -> bool:
    packed = file.start.startswith(b"PK") and (b"_journal/start.json" in file.start or b"samples/" in file.start)
    return packed or ("eval" in file.first and "version" in file.first and "status" in file.first)


def _rows(file: ImportFile) -> Rows:
    if file.start.startswith(b"PK"):
        yield from _packed(file)
        return
    record = next(read_records(file.path), None)
    if record is None or isinstance(record, BadRow):
        yield record or BadRow("the file", "it is empty")
        return
    samples = record[1].get("samples")
    header = _header(record[1])
    for number, sample in enumerate(samples if isinstance(samples, list) else [], 1):
        yield _row(sample, header, f"sample {number}")


def _packed(file: ImportFile) -> Rows:
    try:
        with file.path.open("rb") as raw, zipfile.ZipFile(raw) as log:
            names = {info.filename: info for info in log.infolist()}
            header_info = names.get("header.json") or names.get("_journal/start.json")
            if header_info is None:
                yield BadRow("the file", "it has no header, as a log of Inspect has")
                return
            header_record = _member(log, raw, header_info, "header.json")
            if isinstance(header_record, BadRow):
                yield header_record
                return
            header = _header(header_record[1])
            for number, info in enumerate((member for name, member in names.items() if name.startswith("samples/")), 1):
                location = f"sample {number}"
                sample = _member(log, raw, info, location)
                yield sample if isinstance(sample, BadRow) else _row(sample[1], header, location)
    except (zipfile.BadZipFile, struct.error, EOFError, OSError) as error:
        yield BadRow("the file", f"the archive is damaged or cut off ({error})"[:200])


def _member(log: zipfile.ZipFile, raw: IO[bytes], info: zipfile.ZipInfo, location: str) -> Record:
    """Read a member of the archive as JSON."""
    import zstandard

    if info.file_size > LARGEST_RECORD:
        return BadRow(location, f"it unpacks to {info.file_size:,} bytes, and at most {LARGEST_RECORD:,} are taken")
    try:
        with _zstd(raw, info) if info.compress_type == _ZSTD else log.open(info) as member:
            content = member.read(LARGEST_RECORD + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, zstandard.ZstdError) as error:
        return BadRow(location, f"it cannot be unpacked ({error})"[:200])
    if len(content) > LARGEST_RECORD:
        return BadRow(location, f"it unpacks to more than {LARGEST_RECORD:,} bytes")
    return parsed(content.decode("utf-8", "surrogateescape"), location)


def _zstd(raw: IO[bytes], info: zipfile.ZipInfo) -> Any:
    import zstandard

    raw.seek(info.header_offset)
    header = raw.read(30)
    name, extra = struct.unpack("<HH", header[26:30])
    raw.seek(info.header_offset + 30 + name + extra)
    packed = raw.read(min(info.compress_size, LARGEST_RECORD))
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)


def _header(log: Mapping[str, Any]) -> dict[str, str]:
    spec = dict_of(log.get("eval"))
    names = [text_of(spec.get(key)) for key in ("model", "solver")]
    return {"dataset": text_of(spec.get("task")), "agent": " ".join(filter(None, names))}


def _row(sample: object, header: Mapping[str, str], location: str) -> ImportedRow | BadRow:
    if not isinstance(sample, dict) or "id" not in sample:
        return BadRow(location, "a sample has an id")
    output, error, models = (dict_of(sample.get(key)) for key in ("output", "error", "model_usage"))
    scorer, first = next(iter(dict_of(sample.get("scores")).items()), ("", None))
    value, epoch = dict_of(first).get("value"), number_of(sample.get("epoch"))
    fields = {
        **header,
        "id": sample["id"],
        "question": _text(sample.get("input")),
        "options": sample.get("choices"),
        "gold": sample.get("target"),
        "answer": _output_text(output) or text_of(output.get("completion")),
        "epoch": epoch - 1 if epoch else 0,
        "steps": list(_steps(sample.get("events"))),
        "input_tokens": _total(models, "input_tokens"),
        "output_tokens": _total(models, "output_tokens"),
        "seconds": sample.get("working_time", sample.get("total_time")),
        "score": _LETTERS.get(value, value) if isinstance(value, str) else value,
        "error": error.get("message"),
        "status": "failed" if error else "completed",
    }
    return row_with(fields, location, str(scorer))


def _output_text(output: Mapping[str, Any]) -> str:
    """Return the text of a model's output: its first choice."""
    return _text(dict_of(next(iter(dicts_of(output.get("choices"))), {}).get("message")).get("content"))


def _text(value: object) -> str:
    """Return a text. Of a list of messages it has the user's messages, of a list of parts their texts."""
    if isinstance(value, list):
        messages = [
            message for message in value if isinstance(message, dict) and message.get("role") == "user"
        ] or value
        return "\n".join(
            filter(None, (_text(dict_of(message).get("content", dict_of(message).get("text"))) for message in messages))
        )
    return text_of(value)


def _total(models: Mapping[str, Any], key: str) -> object:
    """Return the sum of the tokens of all models, or the first count that cannot be true."""
    counts = [dict_of(model).get(key) for model in models.values()]
    odd = [count for count in counts if usage_of(count, 0)[0] is None]
    return odd[0] if odd else sum(number_of(count) or 0 for count in counts) if counts else None


def _steps(events: object) -> Iterator[ImportedStep]:
    for event in dicts_of(events):
        if event.get("event") == "model":
            output = dict_of(event.get("output"))
            used = dict_of(output.get("usage"))
            usage, _ = usage_of(used.get("input_tokens"), used.get("output_tokens"))
            seconds, _ = bounded(event.get("working_time"), MOST_SECONDS, "time")
            name = text_of(event.get("model"))
            yield ImportedStep(kind="model", name=name, text=_output_text(output), usage=usage, seconds=seconds)
        elif event.get("event") == "tool":
            arguments = str(event.get("arguments"))[:2000]
            name, text = text_of(event.get("function")), text_of(event.get("result"))
            yield ImportedStep(kind="tool", name=name, asked=arguments, text=text)


INSPECT = Importer(
    name="inspect",
    summary="Logs of Inspect (UK AISI), .eval or .json.",
    recognises=_recognises,
    rows=_rows,
    log=True,
)
