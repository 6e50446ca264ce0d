"""The recorded cases, and what is compared with them.

A file ``NAME.jsonl.gz`` holds inputs and the outputs of one public program of a paper, one case a line, with a unique
`id` and a `group`. A :class:`Comparison` puts each case through our product as a user would run it: by a named profile
or switch that follows the program, or by our default. The modules that hold a tuple ``COMPARISONS`` are listed in
:data:`SUITES`; the tests and ``perf/golden.py`` read the same list.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SUITES = ("tests.golden.retrieval", "tests.golden.graphs", "tests.golden.claims", "tests.golden.rubrics")
"""Modules with a tuple ``COMPARISONS``, in the order of the table."""

Case = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One way of ours beside one file."""

    file: str
    """Name of the file, without its endings."""
    ours: str
    """What a user types for it: a spec, a profile, a switch."""
    published: bool
    """Whether it follows the program: then every case has to be equal. Else it is a default, whose differences are
    counted."""
    equal: Callable[[Case], bool | None]
    """Whether a case comes out as recorded; ``None``: the recorded output is not defined there (unstable ties)."""
    reason: str = ""
    """Why a default differs."""
    groups: tuple[str, ...] = ()
    """Groups of cases that are compared; none: all."""
    what: str = ""
    """What of the case is compared, where it is not all."""

    @property
    def name(self) -> str:
        """A short name for tests."""
        return f"{self.file}: {self.ours}" + (f" ({self.what})" if self.what else "")


def folder() -> Path | None:
    """Where the files are; ``None``: there are none."""
    given = os.environ.get("RAGROUNDS_TEST_DATA")
    found = Path(given) / "golden" if given else None
    return found if found is not None and found.is_dir() else None


@cache
def cases(file: str, place: Path | None = None) -> list[Case]:
    """The cases of a file; the test is skipped where there is no file."""
    path = place or folder()
    if path is None:
        pytest.skip(
            "needs recorded outputs: set RAGROUNDS_TEST_DATA to a folder with golden/ (docs/reference/benchmarks.md)"
        )
    with gzip.open(path / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def chosen(comparison: Comparison, place: Path | None = None) -> list[Case]:
    """The cases that a comparison compares."""
    return [
        case for case in cases(comparison.file, place) if case["group"] in comparison.groups or not comparison.groups
    ]


def comparisons() -> list[Comparison]:
    """Those of all suites."""
    return [one for suite in SUITES for one in import_module(suite).COMPARISONS]


def near(one: float | None, other: float | None, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    """Whether two numbers are the same up to rounding, or both missing."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= max(absolute, relative * max(abs(one), abs(other)))
