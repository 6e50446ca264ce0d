"""House rules: import directions, types, lint, sizes, names, the links at the top, and what must not be committed."""

from __future__ import annotations

import ast
import configparser
import gc
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from ragrounds.base import hooks

ROOT = Path(__file__).resolve().parents[1]
LINKS = ("agents", "graphs", "tools", "evals", "prompts")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )


def test_packages_import_downwards_only() -> None:
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


IMPORT_ALL = """
import importlib, pkgutil, socket, ragrounds

def refuse(*arguments):
    raise AssertionError("a connection at import")

socket.socket.connect = refuse
for module in pkgutil.walk_packages(ragrounds.__path__, "ragrounds."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("ragrounds"):
            raise
"""
"""Imports every module but those that need the package of an extra which is not installed."""


@pytest.mark.slow
def test_nothing_is_done_at_import() -> None:
    """Importing every module needs no network, no key, and writes no file."""
    done = run("-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr


def tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return listed.stdout.split("\n")[:-1]


BAD = (" /work/a", "(/root/a", '"/home/a', "sk-" + "aB3" * 11, "BEGIN PRIVATE KEY", "BEGIN RSA PRIVATE KEY")


def test_no_secret_and_no_private_path_is_committed() -> None:
    bad = re.compile(r"(?<![\w/])/(?:work|root|home)/\w|sk-[A-Za-z0-9]{32,}|BEGIN [A-Z ]*PRIVATE KEY")
    parts = ("/work/", "/root/", "/home/", "sk-", "PRIVATE KEY")
    assert all(bad.search(text) for text in BAD)
    assert all(any(part in text for part in parts) for text in BAD)
    found = []
    for name in tracked():
        path = ROOT / name
        if path.is_symlink() or path.suffix in (".png", ".gz", ".svg") or name == "tests/test_house.py":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if any(part in text for part in parts):  # a search for constants takes a tenth of the expression's time
            found += [f"{name}: {match.group()}" for match in bad.finditer(text)]
    assert not found


PATHS = sorted((ROOT / "ragrounds").rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in PATHS}


@cache
def sources() -> dict[Path, str]:
    """The text of every file of the package."""
    return {path: path.read_text(encoding="utf-8") for path in PATHS}


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, inner ones first; expressions hold no imports, classes or functions."""
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            yield from within(child)
            yield child


@cache
def statements() -> dict[Path, list[ast.stmt]]:
    """Return the imports, classes and functions of every file, without their bodies.

    Whole trees would be 200 MB, which the garbage collector looks through in all tests after these.
    """
    found: dict[Path, list[ast.stmt]] = {}
    gc.disable()  # a fifth of the time
    for path, text in sources().items():
        found[path] = []
        for node in within(ast.parse(text)):
            if isinstance(node, ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[path].append(node)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = []
    gc.enable()
    return found


@pytest.fixture(scope="module")
def parsed_package() -> None:
    """Parse every file before the first test that needs it: it takes a second, and each of them uses it."""
    statements()


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the package with the place where it stands."""
    for path, nodes in statements().items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


def test_files_and_functions_are_short(parsed_package: None) -> None:
    """A file holds one idea whole, and a function can be read at once."""
    lines = sum(len(text.splitlines()) for text in sources().values())
    assert lines / len(sources()) >= 160, "a thought is scattered over files of a few lines"
    assert [path for path, text in sources().items() if len(text.splitlines()) > 600] == []
    assert [name for name, node in functions() if (node.end_lineno or 0) - node.lineno >= 100] == []


def test_a_command_parses_calls_the_api_and_prints(parsed_package: None) -> None:
    """So it is short. That it imports no other room is kept by import-linter."""
    commands = {
        name: (node.end_lineno or 0) - node.lineno + 1
        for name, node in functions()
        if re.match(r"ragrounds/(extensions/\w+/)?cli\b", name)
        and any(".command(" in ast.unparse(one) for one in node.decorator_list)
    }
    assert len(commands) > 40
    assert {name: lines for name, lines in commands.items() if lines > 60} == {}


def test_a_public_class_name_stands_once(parsed_package: None) -> None:
    places: dict[str, set[Path]] = defaultdict(set)
    for path, nodes in statements().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef) and node.col_offset == 0 and not node.name.startswith("_"):
                places[node.name].add(path)
    twice = sorted(name for name, paths in places.items() if len(paths) > 1)
    assert len(twice) <= 8, twice


def imported_by(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, also inside functions, for types alone and relatively."""
    imported: set[str] = set()
    for node in statements()[path]:
        if isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            imported |= {f"{module}.{alias.name}" for alias in node.names} & MODULES.keys() or {module}
    return imported & MODULES.keys()


def test_the_core_imports_no_extension_and_an_extension_only_its_bases(parsed_package: None) -> None:
    """Types alone may be imported from extensions, by the two modules that give names to users and to authors."""
    bases = {name: {name, *getattr(package, "BASES", ())} for name, package in hooks.extensions().items()}
    for _ in bases:  # bases of bases
        bases = {name: known.union(*(bases[base] for base in known)) for name, known in bases.items()}
    extension = {name: name.split(".")[2] for name in MODULES if name.startswith(f"{hooks.EXTENSIONS}.")}
    wrong = {
        f"{name} -> {one}"
        for name, path in MODULES.items()
        if name not in ("ragrounds", "ragrounds.extend")
        for one in imported_by(path) & extension.keys()
        if extension[one] not in bases.get(extension.get(name, ""), ())
    }
    assert wrong == set()
    for name in ("ragrounds", "ragrounds.extend"):
        for node in ast.parse(sources()[MODULES[name]]).body:
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                assert hooks.EXTENSIONS not in ast.unparse(node)


def test_no_module_imports_itself_through_others(parsed_package: None) -> None:
    """Also not inside functions: a circle of imports is two files that are one."""
    graph = {name: imported_by(path) - {name, "ragrounds"} for name, path in MODULES.items()}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        pytest.fail(f"a circle of imports: {circle.args[1]}")


def test_evals_has_only_packages_and_the_contract_names_every_package() -> None:
    evals = ROOT / "ragrounds" / "evals"
    assert [path.name for path in evals.glob("*.py") if path.name != "__init__.py"] == []
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    section = contract["importlinter:contract:layers"]
    layers = set(re.findall(r"ragrounds(?:\.\w+)+", section["layers"]))
    packages = {f"ragrounds.{path.parent.name}" for path in ROOT.glob("ragrounds/*/__init__.py")} - {"ragrounds.evals"}
    packages |= {f"ragrounds.evals.{path.parent.name}" for path in evals.glob("*/__init__.py")}
    assert packages <= layers, sorted(packages - layers)
    assert section["ignore_imports"].strip() == "ragrounds -> ragrounds.extensions.**"  # for type checkers


def package_of(path: Path) -> str:
    """Return the package of a file: its first folder; in evals, ui and extensions the second; else itself."""
    first, *others = path.relative_to(ROOT / "ragrounds").with_suffix("").parts
    return f"{first}/{others[0]}" if first in ("evals", "ui", "extensions") and len(others) > 1 else first


def test_the_core_has_few_packages_and_few_imports_between_them(parsed_package: None) -> None:
    core = [path for path in PATHS if path.name != "__init__.py" and not package_of(path).startswith("extensions")]
    imports = {(package_of(path), package_of(MODULES[name])) for path in core for name in imported_by(path)
               if MODULES[name].name != "__init__.py"}  # fmt: skip
    assert len({package_of(path) for path in core}) <= 30
    assert len({(one, other) for one, other in imports if one != other}) <= 240
