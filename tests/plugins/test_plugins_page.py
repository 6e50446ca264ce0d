"""docs/how-to/plugins.md shows the very files that the tests build and install."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT

PACKAGES = Path(__file__).parent / "packages"


def test_the_page_shows_the_packages_files() -> None:
    page = (ROOT / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", page, re.DOTALL))
    modules = {file.name: file.read_text(encoding="utf-8") for file in PACKAGES.glob("*/*.py")}
    assert len(modules) == 9
    assert shown.pop("pyproject.toml") == (PACKAGES / "scorer" / "pyproject.toml").read_text(encoding="utf-8")
    assert shown.items() <= modules.items()
    folder = "../../tests/plugins/packages"
    others = {file.name: file.parent.name for file in PACKAGES.glob("*/*.py") if file.name not in shown}
    assert {name for name, package in others.items() if f"{folder}/{package}/{name}" not in page} == set()


def test_every_group_stands_on_the_page_and_in_a_package() -> None:
    from ragrounds.base.plugins import extension_points

    page = (ROOT / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
    projects = "".join(file.read_text(encoding="utf-8") for file in PACKAGES.glob("*/pyproject.toml"))
    for group in extension_points():
        assert f"| `{group}` |" in page
        assert f'[project.entry-points."{group}"]' in projects
