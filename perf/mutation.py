"""Mutation testing: how many small changes to the code do the tests notice?

    pip install -e '.[test,mutation]'
    python perf/mutation.py [ROOM ...] [--children N] [--tenths N] [--new]

Each room (`ROOMS`) is copied to `build/mutation/ROOM`, which git ignores, and mutmut changes the copy: one operator,
number, text or argument at a time, in every function that no decorator other than `staticmethod` or `classmethod`
wraps. For each change it runs the tests that reach the changed function, in one process, forked from one that has
imported them all, the quickest first. Figures and survivors are written to `perf/mutation.md`, room by room. What
breaks off goes on with the same command. After an edit of a function its mutants are made anew; after an edit of a
test whatever was neither killed nor judged is tried again; `--new` forgets all.

A survivor that no test can tell from the code is named in `perf/mutation_equivalent.toml` with the reason. Everything
else that survives is listed as not judged, and counts against the room.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mutation"
REPORT = ROOT / "perf" / "mutation.md"
EQUIVALENT = ROOT / "perf" / "mutation_equivalent.toml"


@dataclass(frozen=True)
class Room:
    """What is changed, and the tests that are to notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    but: str = "not postgresql"
    """Those that are left out: they take longer than all others together, and show nothing else."""
    function: str = "*"
    """Pattern of the mutants that are tried, as mutmut names them."""


ROOMS = {
    "budgets": Room(
        ("ragrounds/evals/engine/budget.py",), ("tests/engine/test_budget*.py", "tests/judges/test_grading_budget.py")
    ),
    "calls": Room(
        ("ragrounds/evals/engine/context.py",),
        ("tests/engine/test_call_arguments.py", "tests/engine/test_caps.py", "tests/engine/test_identity.py"),
        function="ragrounds.evals.engine.context.xǁAttemptContextǁcomplete__mutmut_*",
    ),
    "cells": Room(("ragrounds/extensions/studies/cells.py",), ("tests/extensions/studies",)),
    "claims": Room(
        (
            "ragrounds/evals/claims/claims.py",
            "ragrounds/evals/claims/assertions.py",
            "ragrounds/evals/claims/sequential_stop.py",
            "ragrounds/evals/compare/stopped_runs.py",
        ),
        ("tests/compare/test_claims_*.py", "tests/compare/test_corpus_figures.py", "tests/engine/test_until.py"),
    ),
    "fusion": Room(("ragrounds/tools/retrievers/fusion.py",), ("tests/tools/test_combining.py",)),
    "journal": Room(
        ("ragrounds/evals/store/journal.py",),
        ("tests/store/test_arrivals.py", "tests/store/test_journal_*.py", "tests/store/test_payers.py",
         "tests/store/test_salvage.py", "tests/engine/test_recorded_times.py", "tests/engine/test_replay.py"),
        "not postgresql and not whole and not damaged",
    ),
    "prices": Room(
        ("ragrounds/models/prices.py",), ("tests/models/test_prices.py", "tests/engine/test_search_prices.py")
    ),
    "prompts": Room(("ragrounds/prompts/loader.py",), ("tests/prompts",)),
    "stats": Room(("ragrounds/evals/stats/*",), ("tests/stats",)),
    "scorers": Room(
        ("ragrounds/evals/scorers/*",),
        ("tests/scorers", "tests/judges/test_citation_marks.py", "tests/judges/test_claims.py"),
        "not hostile",
    ),
}  # fmt: skip

# mutmut runs the tests in its own process: without pytest-xdist, and without the tests marked slow.
PYTEST = ["-o", "addopts=", "-m", "not slow", "-p", "no:xdist", "-p", "no:langsmith_plugin", "-p", "no:cacheprovider"]
CONFTEST = '''
"""The quickest tests first, nothing remembered of what ran before a fork; and processes that tests start are not asked
which functions they reach."""

import json, os, subprocess, sys
from pathlib import Path

import pytest

STATS = Path(__file__).parent / "mutmut-stats.json"
started = subprocess.Popen.__init__


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    known = json.loads(STATS.read_text())["duration_by_test"] if STATS.exists() else {}
    items.sort(key=lambda item: known.get(item.nodeid, 0.0))


def pytest_sessionstart(session):
    for module in [one for name, one in sys.modules.items() if name.startswith("ragrounds")]:
        for value in list(vars(module).values()):
            getattr(value, "cache_clear", lambda: None)()


def start(self, *arguments, env=None, **options):
    env = dict(os.environ if env is None else env)
    if env.get("MUTANT_UNDER_TEST") == "stats":
        env["MUTANT_UNDER_TEST"] = ""
    started(self, *arguments, env=env, **options)


subprocess.Popen.__init__ = start
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; by default all")
    parser.add_argument("--children", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="processes at a time")
    parser.add_argument("--tenths", type=int, default=10, help="try so many tenths of the mutants, by their last digit")
    parser.add_argument("--new", action="store_true", help="forget what an earlier call found")
    given = parser.parse_args()
    wrong = [room for room in given.rooms if room not in ROOMS]
    if wrong:
        parser.error(f"unknown room {wrong[0]!r}: give some of {', '.join(ROOMS)}, or none for all")
    for name in given.rooms or ROOMS:
        folder = WORK / name
        if given.new:
            shutil.rmtree(folder, ignore_errors=True)
        digits = f"[{'7318529640'[: given.tenths]}]"
        pattern = f"{ROOMS[name].function}{digits}" if given.tenths < 10 else ROOMS[name].function
        prepare(folder, ROOMS[name])
        run(folder, given.children, pattern)
        write(name, *figures(folder, pattern), figures(folder, ROOMS[name].function)[0].total())


def prepare(folder: Path, room: Room) -> None:
    """Bring the room's copy of the repository up to date, and write mutmut's configuration there."""
    changed = False
    for part in ("ragrounds", "tests"):
        there, here = folder / part, ROOT / part
        wanted, had = held(here), held(there)
        for known in [there / path for path in had - wanted]:
            known.unlink()
            for what in ("", ".meta", ".spans"):
                (folder / "mutants" / part / f"{known.relative_to(there)}{what}").unlink(missing_ok=True)
            changed |= part == "tests"
        for path in wanted:
            data = (here / path).read_bytes()
            if not (there / path).exists() or (there / path).read_bytes() != data:
                (there / path).parent.mkdir(parents=True, exist_ok=True)
                (there / path).write_bytes(data)
                changed |= part == "tests"
    options = {
        "source_paths": ["ragrounds"],
        "only_mutate": list(room.files),
        "also_copy": ["conftest.py"],
        "pytest_add_cli_args": [*PYTEST, "-k", room.but],
        "pytest_add_cli_args_test_selection": [found for test in room.tests for found in selected(test)],
        "timeout_multiplier": 3.0,
        "timeout_constant": 30.0,
        "on_dependency_change": "ignore",
    }
    (folder / "mutants").mkdir(exist_ok=True)  # on the path of imports before it is filled
    written = "\n".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    project = f"{(ROOT / 'pyproject.toml').read_text()}\n[tool.mutmut]\n{written}\n"
    (folder / "pyproject.toml").write_text(project)
    (folder / "conftest.py").write_text(CONFTEST)
    if changed:
        (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        judged = known_equivalent()
        for meta in folder.glob("mutants/**/*.meta"):
            found = json.loads(meta.read_text())
            codes = found["exit_code_by_key"]
            settled = {name for name, code, one in mutants(meta) if code in KILLED or one.key in judged}
            found["exit_code_by_key"] = {name: code if name in settled else None for name, code in codes.items()}
            meta.write_text(json.dumps(found))


def held(folder: Path) -> set[Path]:
    """The files of a folder, without what Python compiled."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder) for path in files}


def selected(test: str) -> list[str]:
    """A folder or file of tests, or the files that a pattern finds."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(test))


def run(folder: Path, children: int, pattern: str) -> None:
    """Let mutmut try every mutant of the pattern that it has not tried yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGROUNDS_")}
    environment |= {"PYTHONPATH": str(folder / "mutants"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", str(children)]
    command += [pattern] if pattern != "*" else []
    subprocess.run(command, cwd=folder, env=environment, check=True)


KILLED = (1, 3)
NOT_PLAIN = {"not covered": " (no test reaches it)", "other": " (the process died, or was not asked)"}
NOT_COVERED = (5, 33)
TIMED_OUT = (36, 24, -24, 152, 255)


ENDS = ((KILLED, "killed"), ((0,), "survived"), (TIMED_OUT, "timed out"), (NOT_COVERED, "not covered"))


@dataclass(frozen=True)
class Mutant:
    """A change: the lines that it takes away, those that it puts there, and how its tests ended."""

    function: str
    was: str
    now: str
    how: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by where it was judged."""
        return self.function, self.was, self.now


def mutants(meta: Path) -> Iterator[tuple[str, int | None, Mutant]]:
    """The mutants of a file as mutmut keeps them: name, exit code of the tests (``None``: not tried), what it is."""
    source = meta.with_suffix("")
    spans = json.loads(source.with_name(source.name + ".spans").read_text())["spans"]
    lines = source.read_text().split("\n")
    for name, code in json.loads(meta.read_text())["exit_code_by_key"].items():
        module, _, mutant = name.rpartition(".")
        function = re.sub(r"__mutmut_\d+$", "", mutant)
        before, after = (
            [re.sub(r"[xǁ]\w*__mutmut_\w+", "", line).strip() for line in lines[first - 1 : last]]
            for first, last in (spans[f"{function}__mutmut_orig"], spans[mutant])
        )
        diff = list(difflib.ndiff(before, after))
        was, now = (" ".join(line[2:] for line in diff if line[:2] == mark) for mark in ("- ", "+ "))
        path = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
        how = next((how for codes, how in ENDS if code in codes), "other")
        yield name, code, Mutant(f"{module.removeprefix('ragrounds.evals.')}:{path}", was, now, how)


def figures(folder: Path, pattern: str) -> tuple[Counter[str], list[Mutant]]:
    """How many mutants of the pattern ended in which way, and those that live."""
    metas = sorted(folder.glob("mutants/**/*.meta"))
    tried = [one for meta in metas for name, _, one in mutants(meta) if fnmatch(name, pattern)]
    return Counter(one.how for one in tried), [one for one in tried if one.how not in ("killed", "timed out")]


TOP = """# Mutation testing

`python perf/mutation.py [ROOM ...]`, from a clone with the extras `test` and `mutation`. mutmut makes one small change
at a time, and the room's tests are run on it: *killed* means that a test fails. Timed out counts as killed.
*Equivalent* are survivors that no test can tell from the code, or none should, each with its reason below. The score is
(killed + timed out) / (mutants - equivalent).

Not mutated: functions under a decorator (properties, caches, context managers), numbers and texts outside of functions.
Wording of errors is mutated like everything else, but for the words of f-strings, which mutmut leaves alone. Not run:
tests that need PostgreSQL, real data or more than ten seconds. What is killed once is not tried again when a test is
edited, unless `--new` is given. A row is of the code of its day; survivors in functions that are gone since are left
out of the lists. "135 of 450": only those whose numbers end with some digits were tried (`--tenths`).

| room | on | mutants | killed | timed out | survived | not covered | equivalent | score |
|---|---|---|---|---|---|---|---|---|
"""


def write(name: str, counts: Counter[str], alive: list[Mutant], total: int) -> None:
    """Put the room's figures and survivors into the report, and leave other rooms' as they are.

    `total`: number of the room's mutants, tried or not.
    """
    reasons = known_equivalent()
    told = {one: reasons.get(one.key) for one in alive}
    equivalent = sum(told[one] is not None for one in alive)
    killed, tried = counts["killed"] + counts["timed out"], counts.total()
    score = killed / max(1, tried - equivalent)
    alive_yet = counts["survived"] + counts["other"]
    row = [f"{datetime.now(UTC):%Y-%m-%d}", f"{tried} of {total}" if tried < total else tried]
    row += [counts["killed"], counts["timed out"], alive_yet]
    row += [counts["not covered"], equivalent, f"{score:.1%}"]
    text = REPORT.read_text() if REPORT.exists() else TOP
    rows = {line.split(" | ")[0][2:]: line for line in re.findall(r"^\| \w+ \| \d.*$", text, re.MULTILINE)}
    sections = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in text.split("\n## ")[1:]}
    rows[name] = f"| {' | '.join(str(cell) for cell in [name, *row])} |"
    sections[name] = listed(told, alive)
    order = [room for room in ROOMS if room in rows]
    body = "".join(f"\n## {room}\n\n{sections[room]}\n" for room in order)
    REPORT.write_text(TOP + "".join(f"{rows[room]}\n" for room in order) + body)
    print(rows[name])


def listed(told: dict[Mutant, str | None], alive: list[Mutant]) -> str:
    """The survivors of a room: those judged equivalent, by reason, then the others."""
    parts = []
    by_reason: dict[str, list[Mutant]] = {}
    for one in alive:
        if reason := told[one]:
            by_reason.setdefault(reason, []).append(one)
    parts.append(f"Judged equivalent: {sum(map(len, by_reason.values())) or 'none'}.")
    for reason, chosen in sorted(by_reason.items()):
        parts.append(f"{reason[0].upper()}{reason[1:]}:\n\n" + "\n".join(shown(one) for one in chosen))
    others = [one for one in alive if not told[one]]
    parts.append(f"Not judged: {len(others) or 'none'}.")
    if others:
        parts.append("\n".join(shown(one) + NOT_PLAIN.get(one.how, "") for one in others))
    return "\n\n".join(parts)


def shown(one: Mutant) -> str:
    """A survivor as a line of the report."""
    return f"- {one.function}: `` {one.was} `` → `` {one.now} ``"


def known_equivalent() -> dict[tuple[str, str, str], str]:
    """The survivors that were judged (function, the line before, the line after) → the reason."""
    judged = tomllib.loads(EQUIVALENT.read_text())["equivalent"]
    return {(function, was, now): one["reason"] for one in judged for function, was, now in one["mutants"]}


if __name__ == "__main__":
    main()
