"""Objects found in a package's modules, and by an import path."""

import sys

import pytest

from ragrounds.base import hooks, plugins
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import discover, imported
from ragrounds.evals.analyses.analysis import Analysis, analyses, find_analysis

PLUGGED = hooks.ANALYSIS._replace(folder="plugged")
_ANALYSIS = """
from ragrounds.evals.analyses.analysis import Analysis
{name} = Analysis(name="{value}", summary="s", needs="n", measure=len, table=len, picture=len)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes modules of a package ``plugged`` that can be imported."""
    folder = tmp_path / "plugged"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def write(**modules):
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)

    yield write
    plugins._discovered.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "plugged"]:
        del sys.modules[name]


def test_one_more_file_is_one_more_object(package):
    package(one=_ANALYSIS.format(name="ONE", value="one"), two=_ANALYSIS.format(name="TWO", value="two"))
    found = discover(PLUGGED, Analysis)
    assert list(found) == ["one", "two"]
    assert find_analysis("plugged.one:ONE") is found["one"]
    with pytest.raises(UserError, match="expected an Analysis"):
        imported("plugged.one:__name__", Analysis, "an Analysis")


def test_two_of_one_name_are_a_mistake(package):
    package(a=_ANALYSIS.format(name="A", value="same"), b=_ANALYSIS.format(name="B", value="same"))
    with pytest.raises(UserError, match=r"^The analysis 'same' is in plugged\.a and in plugged\.b: give"):
        discover(PLUGGED, Analysis)


def test_an_object_that_another_module_imports_is_the_same(package):
    package(a=_ANALYSIS.format(name="A", value="one"), b="from plugged.a import A\n")
    assert list(discover(PLUGGED, Analysis)) == ["one"]


def test_every_analysis_says_what_it_needs():
    for analysis in analyses().values():
        assert analysis.summary
        assert analysis.needs
