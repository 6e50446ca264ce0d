"""What a stranger looks for in a repository, what is public, and what a release needs."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from ragrounds.api.functions import public_modules
from ragrounds.version import __version__
from tests.conftest import ROOT

sys.path.append(str(ROOT / "docs" / "scripts"))
import release_check

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
NOTICE = re.compile(r"Deprecated since (\d+\.\d+)\. Removed in (\d+\.\d+): use \S.*\.")


def test_the_citation_is_of_this_version_and_names_five_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["authors"] == [{"name": "The ragrounds developers"}]
    assert len(citation["references"]) == 5
    assert all({"type", "title", "authors"} <= paper.keys() for paper in citation["references"])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_asks_for_what_is_needed(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert content.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_a_release_is_refused_until_every_line_of_the_list_is_filled_in(tmp_path: Path) -> None:
    listed = release_check.missing(ROOT)
    pages = ("docs/conf.py", "docs/how-to/ci.md", "docs/project/releasing.md", "paper/paper.md", "GOVERNANCE.md")
    files = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "ragrounds/version.py", *pages)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert release_check.missing(tmp_path) == listed != []
    for name, old, new in (
        ("pyproject.toml", "[project.scripts]", '[project.urls]\nRepository = "https://r"\nDocumentation = "https://d"\n'
         'Issues = "https://i"\n\n[project.scripts]'),
        ("CITATION.cff", "keywords:", "repository-code: https://r\ndate-released: 2026-12-01\nkeywords:"),
        ("CHANGELOG.md", f"{__version__} (unreleased)", f"{__version__} (2026-12-01)"),
        ("docs/conf.py", 'html_baseurl = ""', 'html_baseurl = "https://d"'),
        ("docs/how-to/ci.md", "until an index has it", ""),
        ("paper/paper.md", "to be filled in by the owner", "Ann's"),
        ("GOVERNANCE.md", "The ragrounds developers.", "Ann."),
    ):  # fmt: skip
        file = tmp_path / name
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert release_check.missing(tmp_path, f"v{__version__}") == []
    assert release_check.missing(tmp_path, "v9") == [f"the tag is v9, the version {__version__}"]


def test_every_guarantee_is_backed_by_tests_and_measurements_that_exist() -> None:
    page = (ROOT / "docs/project/is-it-true.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 20
    assert [pair for pair in named if f"def {pair[1]}(" not in (ROOT / pair[0]).read_text(encoding="utf-8")] == []
    readme = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## What it guarantees")[2].partition("[Is it")[0]
    )
    guarantees = [line.strip() for line in re.split(r"^- ", readme.strip(), flags=re.M)[1:]]
    sections = re.split(r"^## ", page, flags=re.M)[1 : len(guarantees) + 1]
    for guarantee, section in zip(guarantees, sections, strict=True):
        assert guarantee.partition("**")[2].partition("**")[0].rstrip(".") == section.partition("\n")[0]
        assert "::test_" in section
        assert "../../perf/" in section


def test_the_image_is_slim_without_rights_and_has_what_it_copies() -> None:
    """CI builds it; where there is no builder, its lines are read."""
    lines = [line for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line[:1].isupper()]
    last_stage = lines[max(at for at, line in enumerate(lines) if line.startswith("FROM")) :]
    assert last_stage[0].endswith("-slim")
    assert [line for line in last_stage if line.startswith("USER")] == ["USER ragrounds"]
    copied = re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    assert all((ROOT / name).exists() for name in copied)
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert services["networks"] == {"inside": {"internal": True}}
    assert all(service["networks"] == ["inside"] for service in services["services"].values())
    assert not any("ports" in service for service in services["services"].values())


def test_workflows_name_files_that_exist_and_give_no_job_more_than_it_needs() -> None:
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}
        commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
        assert not any("${{" in command for command in commands)  # a name of a branch is never text of a script
        named = re.findall(r"(?:\.ci|docs/scripts)/[\w./]+", "\n".join(commands))
        assert [name for name in named if not (ROOT / name).is_file()] == []


def notices(source: str) -> list[str]:
    """Return the texts of `@deprecated` in a module."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = [(getattr(call.func, "id", getattr(call.func, "attr", "")), call.args) for call in calls]
    return [ast.literal_eval(arguments[0]) for name, arguments in names if name == "deprecated"]


def faults(notice: str, version: str) -> str:
    """Return what is wrong with a notice in this version; empty if nothing is."""
    if not (match := NOTICE.fullmatch(notice)):
        return f"{notice!r} is not of the form 'Deprecated since 1.1. Removed in 1.3: use rr.NAME.'"
    since, removed, now = (tuple(map(int, re.findall(r"\d+", text)[:2])) for text in (*match.groups(), version))
    if removed[0] == since[0] and removed[1] < since[1] + 2:
        return f"{notice!r} leaves less than two minor versions"
    return f"{notice!r} is due: remove it" if now >= removed else ""


@pytest.mark.parametrize(
    ("notice", "version", "fault"),
    [
        ("Deprecated since 1.1. Removed in 1.3: use rr.compare.", "1.2.4", ""),
        ("Deprecated since 1.1. Removed in 1.3: use rr.compare.", "1.3.0", "is due"),
        ("Deprecated since 1.1. Removed in 1.2: use rr.compare.", "1.1.0", "less than two"),
        ("Deprecated since 1.9. Removed in 2.0: use rr.compare.", "1.9.0", ""),
        ("Old.", "1.0.0", "is not of the form"),
    ],
)
def test_a_deprecation_names_its_end_and_is_removed_then(notice: str, version: str, fault: str) -> None:
    (found,) = notices(f"@deprecated({notice!r})\ndef f(): ...\n")
    text = faults(found, version)
    assert bool(text) == bool(fault)
    assert fault in text


def test_deprecations_of_the_package_are_announced_and_not_due() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "ragrounds").rglob("*.py")]
    texts = [notice for source in sources if "deprecated(" in source for notice in notices(source)]
    assert [text for notice in texts if (text := faults(notice, __version__))] == []


def test_every_public_name_is_in_the_surface_file() -> None:
    lines = (ROOT / "docs/reference/surface.txt").read_text(encoding="utf-8").splitlines()
    listed = {match[1] for line in lines if (match := re.match(r"rr\.(\w+)(?!\.|\w)", line))}
    assert listed == public_modules().keys(), "python docs/scripts/surface.py, and docs/project/stability.md"


@pytest.mark.slow
def test_everything_public_is_in_the_surface_file() -> None:
    import surface

    assert surface.PAGE.read_text(encoding="utf-8") == surface.surface(), "python docs/scripts/surface.py"
