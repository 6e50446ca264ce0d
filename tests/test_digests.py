"""Digests of code: what counts and what does not, in modules, packages and lone files, under every Python."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragrounds.base import digests
from ragrounds.evals.scorers import all_scorers

ROOT = Path(__file__).parents[1]
SOURCE = '''"""A module."""
from helper import double


def answer(value: int) -> str:
    """Doubles."""
    return f"{double(value):>4}!"
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "helper.py").write_text("def double(value):\n    return 2 * value\n")
    (tmp_path / "unused.py").write_text("ONE = 1\n")
    return tmp_path


def digest(folder):
    return digests.file_digest(folder / "mine.py")


def test_comments_and_layout_do_not_count(folder):
    before = digest(folder)
    (folder / "mine.py").write_text("# new\n\n" + SOURCE.replace("return f", "return (  # why\n        f")[:-1] + ")\n")
    assert digest(folder) == before
    (folder / "helper.py").write_text("def double(value):\n\n    # twice\n    return (2 * value)\n")
    assert digest(folder) == before


def test_what_is_done_counts_in_the_file_and_in_what_it_imports(folder):
    before = digest(folder)
    (folder / "unused.py").write_text("ONE = 2\n")
    assert digest(folder) == before
    (folder / "helper.py").write_text("def double(value):\n    return 3 * value\n")
    changed = digest(folder)
    assert changed != before
    (folder / "mine.py").write_text(SOURCE.replace("!", "?"))
    assert digest(folder) not in (before, changed)


def test_docstrings_count_in_code_of_others_for_langchain_shows_them_to_models(folder):
    before = digest(folder)
    (folder / "mine.py").write_text(SOURCE.replace("Doubles.", "Doubles a number."))
    assert digest(folder) != before


def test_the_same_code_elsewhere_is_the_same(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(folder, other)
    assert digest(other) == digest(folder)


def test_files_behind_a_file(folder):
    assert [path.name for path in digests.files_behind(folder / "mine.py")] == ["helper.py", "mine.py"]


def test_relative_and_lazy_imports_of_a_package_are_followed(tmp_path, monkeypatch):
    package = tmp_path / "own_package_of_a_user"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "graph.py").write_text(
        "def build():\n    from . import parts\n    from .words import say\n    return 1\n"
    )
    (package / "parts.py").write_text("import own_package_of_a_user.deep\n")
    (package / "words.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import types\nsay = 1\n"
    )
    (package / "deep.py").write_text("DEEP = 1\n")
    (package / "types.py").write_text("KIND = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    name = "own_package_of_a_user.graph"
    seen = {digests.code_digest(name)}
    for changed in ("parts.py", "words.py", "deep.py"):
        (package / changed).write_text((package / changed).read_text() + "MORE = 1\n")
        seen.add(digests.code_digest(name))
    assert len(seen) == 4
    (package / "types.py").write_text("KIND = 2\n")
    assert digests.code_digest(name) in seen


def test_of_this_package_only_the_room_is_followed():
    alone = digests.code_digest("ragrounds.evals.scorers.robust")
    assert alone != digests.code_digest("ragrounds.evals.scorers.robust", within=("ragrounds.evals.scorers",))
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        digests.code_digest("ragrounds.no_such")


def test_an_object_is_at_home_where_it_is_made():
    for name, scorer in all_scorers().items():
        home = digests.home_of(scorer)
        assert home.startswith("ragrounds.evals.scorers."), name
        assert home != "ragrounds.evals.scorers.catalogue", name
    assert digests.home_of(all_scorers()["robust"]) == "ragrounds.evals.scorers.robust"


def test_a_digest_is_the_same_under_every_python_and_in_every_release():
    """The digests that stores hold: one that changes here asks every user's searches and scores again."""
    tree = """class A(B, kind="x"):\n    def f(self, *, a: int = -1, b=f"{1!r:>{2}} {x}"):\n        return [i async for i in a if i], b"", 1e3, ...\n"""  # noqa: E501
    words: list[str] = []
    digests._write(ast.parse(tree), words, [], is_own=True)
    assert digests.text_digest(*words) == "0db3a1d0ecd0be02"


@pytest.mark.slow
def test_other_pythons_that_are_here_give_the_same_digests():
    script = (  # a tenth of the package, in which nearly every kind of syntax occurs
        "from pathlib import Path; from ragrounds.base import digests\n"
        "for p in sorted(Path('ragrounds/evals').rglob('*.py'))[::3]: print(p, digests._read(p, True, (0, 0))[0])"
    )
    here = subprocess.run([sys.executable, "-B", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    for version in ("3.11", "3.12", "3.13"):
        python = shutil.which(f"python{version}")
        if python and f"{sys.version_info.major}.{sys.version_info.minor}" != version:
            told = subprocess.run([python, "-B", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
            if told.returncode == 0:
                assert told.stdout == here.stdout, version
