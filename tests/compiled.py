"""Compile the package and the tests once before pytest's workers start; otherwise every worker compiles all of it.

Hypothesis parses the package, too, for constants that it tries: once, as well.

python -m tests.compiled START STEP     # rewrite the assertions of every STEP-th test file
"""

from __future__ import annotations

import compileall
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parents[1]
REWRITTEN = re.compile(r"/(test_[^/]*|conftest)\.py$")
"""Paths of files that pytest compiles by itself, with other assertions."""
FEWEST = 40
"""Number of files from which starting processes is quicker than compiling each file when it is imported."""


def compile_once() -> None:
    """Write the compiled form of every file that has none, with one process per core."""
    if sum(not _compiled_path(path).exists() for path in _rewritten_files()) < FEWEST:
        return
    cores = os.cpu_count() or 1
    command = [sys.executable, "-m", "tests.compiled"]
    processes = [subprocess.Popen([*command, str(start), str(cores)], cwd=ROOT) for start in range(cores)]
    _store_constants()
    for process in processes:
        process.wait()
    compileall.compile_dir(ROOT / "ragrounds", quiet=2, workers=cores)
    compileall.compile_dir(ROOT / "tests", rx=REWRITTEN, quiet=2, workers=cores)


def _rewritten_files() -> list[Path]:
    """Return the files whose assertions pytest rewrites, in a stable order."""
    return sorted(path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith(("test_", "conftest.")))


def _compiled_path(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)


def _rewrite_assertions(paths: Sequence[Path]) -> None:
    """Do what pytest's import hook does with a test file, without running it.

    The functions of pytest that are used here are private: if they change, the workers compile the tests as before.
    """
    with suppress(AttributeError, TypeError):
        for path in paths:
            source_mark, code = rewrite._rewrite_test(path, None)  # type: ignore[arg-type] # without options
            compiled = _compiled_path(path)
            compiled.parent.mkdir(exist_ok=True)
            unfinished = compiled.with_suffix(f".{os.getpid()}")
            with unfinished.open("wb") as file:
                rewrite._write_pyc_fp(file, source_mark, code)
            unfinished.replace(compiled)  # at once: a worker never reads half a file


def _store_constants() -> None:
    """Have Hypothesis keep the constants of each module in its cache, which workers read at their first property.

    The function is private: if it changes, the workers parse the package as before.
    """
    with suppress(AttributeError, ImportError, TypeError):
        from hypothesis.internal.constants_ast import constants_from_module

        for path in (ROOT / "ragrounds").rglob("*.py"):
            module = ModuleType(path.stem)
            module.__file__ = str(path)
            constants_from_module(module)


if __name__ == "__main__":
    start, step = map(int, sys.argv[1:])
    _rewrite_assertions(_rewritten_files()[start::step])
