"""Servers for `ragrounds build` that tests share: one is given a script by each test, one goes by words."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.servers.process import Running, running

Builder = Callable[..., Running]


@pytest.fixture(scope="session")
def builder_server() -> Iterator[Running]:
    with running("extensions.construction.builder_server") as server:
        yield server


@pytest.fixture(scope="session")
def annotator_server() -> Iterator[Running]:
    with running("extensions.construction.annotator") as server:
        yield server


@pytest.fixture
def builder(builder_server: Running) -> Builder:
    """Give the server the fates of reports, or the relevant documents of queries; its counts begin at 0."""

    def start(script: Mapping[str, str] | None = None, truth: Mapping[str, Sequence[str]] | None = None) -> Running:
        body = json.dumps({"script": script or {}, "truth": truth or {}}).encode()
        urllib.request.urlopen(builder_server.url.replace("/v1", "/script"), body, timeout=10).close()
        return builder_server

    return start
