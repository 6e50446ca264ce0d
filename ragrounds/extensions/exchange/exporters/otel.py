"""OpenTelemetry spans with the OpenInference conventions, into a file or to a collector.

One trace per attempt: the attempt (AGENT), its steps (CHAIN), its calls (LLM, EMBEDDING, RETRIEVER, TOOL). A file
contains OTLP/JSON, one request per line. Scores are in the attempt's metadata: OTLP has no other field for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ragrounds.base.addresses import check_address
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.text import safe
from ragrounds.evals.store.store import Store
from ragrounds.extensions.exchange.exporters.openinference import PROJECT, openinference
from ragrounds.extensions.exchange.exporters.otlp import OtlpExporter
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner
from ragrounds.extensions.exchange.formats import Export, ExportFormat, ExportPart, Progress, lines_file

_SECRET = re.compile("auth|key|token|secret|password|cookie", re.IGNORECASE)
"""Names of headers whose values are keys."""


def otlp_json(store: Store, runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the spans as lines of OTLP/JSON, as the OpenTelemetry collector's file receiver reads them."""
    exporter = OtlpExporter(openinference, project_name=PROJECT)
    yield from map(exporter.json, exporter.batches(TraceCleaner().traces(store, runs)))


def send(
    store: Store,
    runs: Sequence[Run],
    endpoint: str,
    headers: Mapping[str, str],
    progress: Progress = lambda label, done: None,
) -> str:
    """Send the spans to a collector, and return a phrase on the result.

    Raises:
        UserError: it cannot be reached, or accepts none of them.
    """
    exporter = OtlpExporter(openinference, project_name=PROJECT)
    return exporter.send(endpoint, TraceCleaner().traces(store, runs), headers, headers.values(), progress)


class OtelOptions(Struct, frozen=True):
    """Address and headers for sending the spans."""

    endpoint: Annotated[
        str, Meta(description="Or send to this OTLP/HTTP address, such as http://127.0.0.1:4318/v1/traces.")
    ] = ""
    header: Annotated[
        list[str], Meta(description="NAME=VALUE sent along with --endpoint (repeatable); NAME=env:VARIABLE for a key.")
    ] = []


def _parts(export: Export[OtelOptions]) -> Iterator[ExportPart]:
    yield lines_file(lambda: otlp_json(export.store, export.runs))


def _check(options: OtelOptions, to_file: bool) -> None:
    if to_file == bool(options.endpoint):
        raise UserError("Give one of --out FILE and --endpoint URL.")
    check_address(options.endpoint, "send it with --header NAME=env:VARIABLE")
    for text in options.header:
        _header(text)


def _send(export: Export[OtelOptions]) -> str:
    endpoint = export.options.endpoint
    headers = dict(_header(text) for text in export.options.header)
    return f"{send(export.store, export.runs, endpoint, headers, export.progress)} to {endpoint}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not name:
        raise UserError("--header must be NAME=VALUE.")
    variable = value.removeprefix("env:")
    if variable != value:
        if not os.environ.get(variable):
            raise UserError(f"--header {name}: the variable {safe(variable, 100)!r} is not set.")
        value = os.environ[variable].strip()
    elif _SECRET.search(name):
        raise UserError(
            f"--header {name} was given with its value, which stands in the shell's history and in the list of "
            f"processes. Put it into a variable and give --header {name}=env:VARIABLE."
        )
    return name, value


FORMAT = ExportFormat(
    name="otel",
    summary="OpenTelemetry spans with the OpenInference conventions. Only --endpoint sends them.",
    writes="file",
    extra="export",
    options=OtelOptions,
    parts=_parts,
    send=_send,
    check=_check,
)
