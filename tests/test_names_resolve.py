"""Names in strings and paths relative to a file resolve, also after modules move.

Import checkers do not read them: dotted names in strings, docstrings, TOML, docs, `python -m`, `resources.files` and
paths relative to ``__file__``. Changed code must also change the fingerprint, in extensions and plugins too.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

import ragrounds
from ragrounds.base.digests import code_digest
from ragrounds.base.hooks import HOOKS
from ragrounds.base.specs import parse
from ragrounds.tools.retriever import spec_code

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"(?<![\w./@-])((?:ragrounds|tests)(?:\.(?!__)[A-Za-z_][A-Za-z0-9_]*)+)(?::([A-Za-z_]\w*))?(?![\w-])")
NO_MODULES = {*(hook.group for hook in HOOKS if hook.group), "ragrounds.more", "ragrounds.check", "ragrounds.result"}
"""Groups of entry points, a key of Click's, and attributes of pytest's fixture `ragrounds`."""
BY_VARIABLE = re.compile(r"tests\.\w+")
"""An attribute of a variable `tests`, unless it is a module."""


@cache
def texts() -> dict[Path, str]:
    """Return the texts that name modules: the package, its docs and settings, and the scripts of perf."""
    found = [path for folder in ("ragrounds", "docs", "perf", ".ci") for path in (ROOT / folder).rglob("*")]
    found += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", ".importlinter")]
    kept = (path for path in found if path.suffix in (".py", ".md", ".toml", ".ipynb", "") and path.is_file())
    read = (
        path for path in kept if "encodings" not in path.parts and not ("perf" in path.parts and path.suffix == ".md")
    )
    return {path: path.read_text(encoding="utf-8") for path in read}


@cache
def defines(path: Path, name: str) -> bool:
    """Return True if a module binds a name: by a definition, an assignment, an import, or through `globals()`."""
    binds = rf"\b(?:def|class|as) {name}\b|^\s*{name}\b\s*[:=,]|\bimport\b.*\b{name}\b|^globals\(\)"
    return re.search(binds, path.read_text(encoding="utf-8"), re.MULTILINE) is not None


@cache
def resolves(dotted: str, name: str = "") -> bool:
    """Return True if a dotted name is a module, or a module followed by a name that it binds."""
    parts = dotted.split(".")
    if parts[1] == "extensions" and not ROOT.joinpath(*parts[:3]).exists():
        return len(parts) > 3  # of an extension that was deleted
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        path = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), place)
        if path.exists():
            left = [*parts[count:], *filter(None, [name])]
            public = ragrounds.__all__ if place == ROOT / "ragrounds" else ()
            return not left or left[0] in public or (path.is_file() and defines(path, left[0]))
    return False


def test_every_dotted_name_is_a_module_or_leads_to_what_one_binds() -> None:
    """Covers strings, docstrings, comments, TOML and docs. Imports are left to Python."""
    lines = re.compile(r"^\s*from ragrounds\S* import .*", re.MULTILINE)
    names = {
        (path, *found.groups("")) for path, text in texts().items() for found in NAME.finditer(lines.sub("", text))
    }
    assert len(names) > 400
    wrong = [
        (str(path.relative_to(ROOT)), *name)
        for path, *name in names
        if name[0] not in NO_MODULES and not resolves(*name) and not BY_VARIABLE.fullmatch(name[0])
    ]
    assert sorted(wrong) == []


def test_a_name_that_leads_nowhere_is_found() -> None:
    assert resolves("ragrounds.tools.retriever.Retriever.check")
    assert resolves("ragrounds.tools.retriever", "RETRIEVERS")
    assert resolves("ragrounds.run")
    for wrong in ("ragrounds.nowhere.at_all", "ragrounds.tools.retriever.Nothing", "ragrounds.no_function"):
        assert not resolves(wrong)


class Place(PurePosixPath):
    """A path that is computed without the file system."""

    def resolve(self) -> Place:
        return self


def own_places(path: Path) -> Iterator[tuple[ast.expr, str]]:
    """Yield the largest expressions that begin at ``__file__`` or at a package's resources, with their values."""
    begins = re.compile(r"\b__file__|\bfiles\(")
    numbers = [number for number, line in enumerate(texts()[path].split("\n"), 1) if begins.search(line)]
    if not numbers:
        return
    tree = ast.parse(texts()[path])

    def files(package: str) -> Place:
        return Place(ROOT, *package.split("."))

    known = {
        "__builtins__": {"str": str},
        "__file__": str(path),
        "__package__": ".".join(path.relative_to(ROOT).parts[:-1]),
        "Path": Place,
        "files": files,
        "resources": SimpleNamespace(files=files),
        "os": SimpleNamespace(path=os.path),
    }
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.targets[0], ast.Name)
        ):
            known.setdefault(node.targets[0].id, node.value.value)
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", math.inf)
        if not any(first <= number <= last for number in numbers):
            continue
        if isinstance(node, ast.Call | ast.Attribute | ast.Subscript | ast.BinOp) and begins.search(ast.unparse(node)):
            try:
                found = eval(compile(ast.Expression(node), str(path), "eval"), dict(known))
            except (NameError, AttributeError, TypeError, KeyError):
                pass  # more than a path, or known when it runs: its parts are looked at
            else:
                if isinstance(found, Place | str):
                    yield node, str(found)
                    continue
        left += ast.iter_child_nodes(node)


def test_every_path_from_a_files_own_place_leads_somewhere() -> None:
    """A count of parents ends at the top of the repository or of the package, unless a name follows."""
    tops = (str(ROOT), str(ROOT / "ragrounds"))
    seen, wrong = 0, []
    for path, text in texts().items():
        if path.suffix == ".py" and ("__file__" in text or "files(" in text):
            for node, place in own_places(path):
                seen += 1
                written = place.startswith(str(ROOT / "perf"))  # by the script itself
                counted = isinstance(node, ast.Subscript) and not ast.unparse(node).endswith("[0]")
                if not (Path(place).exists() or written) or (counted and place not in tops and "foreign" not in place):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert seen > 60
    assert wrong == []


@pytest.mark.parametrize(
    ("retriever", "file"),
    [
        ("chroma", "chroma.py"),
        ("chroma", "external_engine.py"),
        ("qdrant", "external_index.py"),
        ("pgvector", "external_parameters.py"),
        ("langchain[object=a:b]", "external_engine.py"),
        ("qdrant", "embedders.py"),
        ("bm25", "postings.py"),
    ],
)
def test_changed_code_of_a_retriever_is_another_fingerprint(
    retriever: str, file: str, edit: Callable[[str], None]
) -> None:
    """Holds in extensions too: no old answer is shown for changed code."""
    before = spec_code(parse(retriever))
    edit(file)
    assert spec_code(parse(retriever)) != before


def test_a_plugin_is_digested_with_its_package_and_with_what_it_takes_from_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], None]
) -> None:
    package = tmp_path / "their_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "searching.py").write_text("from ragrounds.tools.index.postings import Postings\nfrom . import folds\n")
    (package / "folds.py").write_text("FOLDS = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def digest() -> str:
        return code_digest("their_package.searching", within=("ragrounds.tools",))

    first = digest()
    (package / "folds.py").write_text("FOLDS = 40\n")
    second = digest()
    edit("postings.py")
    assert len({first, second, digest()}) == 3
