"""The house rules: import directions, types, lint, the links at the top, and what must not be in the repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINKS = ("agents", "graphs", "tools", "evals", "prompts")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )


def test_rooms_import_downwards_only() -> None:
    done = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]])
def test_ruff(check: list[str]) -> None:
    done = run("-m", "ruff", *check)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_types_are_strict() -> None:
    done = run("-m", "mypy")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", LINKS)
def test_the_links_at_the_top_say_what_to_import(name: str) -> None:
    assert (ROOT / name).resolve() == (ROOT / "ragrounds" / name).resolve()
    done = run("-c", f"import {name}")
    assert done.returncode != 0
    assert f"import ragrounds.{name}" in done.stderr


def test_help_imports_nothing_heavy() -> None:
    done = run("-X", "importtime", "-m", "ragrounds", "--help")
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    heavy = {"langgraph", "langchain", "langchain_core", "openai", "sqlalchemy", "numpy", "scipy", "bm25s", "pydantic"}
    assert not loaded & heavy
    for command in ("run", "import", "score", "show", "compare", "runs", "agents"):
        assert command in done.stdout


def test_nothing_is_done_at_import() -> None:
    """Importing every module needs no network, no key, and writes no file."""
    code = (
        "import pkgutil, importlib, socket, ragrounds\n"
        "socket.socket.connect = lambda *a: (_ for _ in ()).throw(AssertionError('a connection at import'))\n"
        "for m in pkgutil.walk_packages(ragrounds.__path__, 'ragrounds.'):\n"
        "    if not m.name.endswith('__main__'): importlib.import_module(m.name)\n"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr


def tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return listed.stdout.split("\n")[:-1]


def test_no_secret_and_no_private_path_is_committed() -> None:
    bad = re.compile(r"(?<![\w/])/(?:work|root|home)/\w|sk-[A-Za-z0-9]{32,}|BEGIN [A-Z ]*PRIVATE KEY")
    found = []
    for name in tracked():
        path = ROOT / name
        if path.is_symlink() or path.suffix in (".png", ".gz", ".svg") or name == "tests/test_house.py":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {match.group()}" for match in bad.finditer(text)]
    assert not found


def test_files_are_short() -> None:
    """A file has one subject; one that grows beyond this has two."""
    long = [
        (path.relative_to(ROOT), count)
        for path in (ROOT / "ragrounds").rglob("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 400
    ]
    assert not long
