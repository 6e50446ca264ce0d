"""The recorder stands alone: it is loaded beside systems of any interpreter from 3.9 on, with nothing else of ours."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows import each_row

FOLDER = Path(__file__).resolve().parents[2] / "ragrounds/recorder"
LOADED = """
import importlib, importlib.util, json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
made = importlib.util.spec_from_file_location(
    "ragrounds_recorder", folder / "__init__.py", submodule_search_locations=[str(folder)])
sys.modules["ragrounds_recorder"] = package = importlib.util.module_from_spec(made)
made.loader.exec_module(package)
for path in sorted(folder.glob("[a-z]*.py")):
    importlib.import_module("ragrounds_recorder." + path.stem)
print(json.dumps({"version": list(sys.version_info[:2]), "modules": sorted(sys.modules)}))
"""


def oldest_python() -> str:
    """The oldest interpreter from 3.9 on that there is, apart from the one of these tests."""
    for minor in (9, 10):
        name = f"python3.{minor}"
        places = [shutil.which(name), *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))]
        for place in filter(None, places):
            done = subprocess.run(
                [place, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True
            )
            if done.stdout.strip() == str(minor):  # a shim stands for an interpreter that may not be there
                return place
    return ""


@pytest.mark.parametrize("python", [sys.executable, oldest_python()], ids=["this", "oldest"])
def test_the_recorder_is_loaded_without_anything_else_of_ours(python: str, tmp_path: Path) -> None:
    if not python:
        pytest.skip("no python3.9 and no python3.10 here")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-I", "-W", "error::SyntaxWarning", "-c", LOADED, str(FOLDER)],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout)["modules"]
    assert [one for one in modules if one.split(".")[0] == "ragrounds"] == []
    assert not {"aiohttp", "httpx", "langchain_core", "msgspec", "urllib3"} & set(modules)


@each_row("path", sorted(FOLDER.rglob("*.py")))
def test_at_module_level_only_the_standard_library_is_imported(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    inside = {
        one
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING")
        for one in ast.walk(block)
    }
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        assert not [name for name in names if name.split(".")[0] == "ragrounds"], "relative imports alone"
        if node not in inside:
            assert [name for name in names if name.split(".")[0] not in sys.stdlib_module_names] == []
