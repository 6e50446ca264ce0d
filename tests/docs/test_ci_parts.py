"""`.ci/parts.py`, which runs all checks of a release: what fails is named, and the weekly page has every part."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / ".ci" / "parts.py"
pytestmark = pytest.mark.skipif(not PATH.exists(), reason="the sdist has no .ci")


@pytest.fixture(scope="module")
def parts() -> Any:
    spec = importlib.util.spec_from_file_location("ci_parts", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["ci_parts"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_failed_installation_of_uv_is_named(parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setenv("WEEKLY", "true")
    run = parts.Runner(tmp_path)
    run.clone.mkdir()
    parts.prepare(run)
    assert run.outcome.failed == ["installation of uv: failed with exit code 1"]
    assert parts.weekly_lanes(run) == []
    parts.check_skipped(run.outcome, [("no browser", parts.MOST_SKIPPED + 1)])
    assert parts._conclude(run.outcome, 0, (), 0) == 1
    page = parts.weekly_page(run.outcome, 0, 0)
    assert "| installation of uv | failed with exit code 1 |" in page
    assert "- weekly lanes: no environment for them could be installed\n" in page
    assert f"- {parts.MOST_SKIPPED + 1} skipped tests, more than {parts.MOST_SKIPPED}\n" in page


@pytest.mark.parametrize("name", ["WHEEL_TESTS", "LOWEST_TESTS", "WEEKLY_TESTS"])
def test_the_named_tests_exist(parts: Any, name: str) -> None:
    assert [path for path in getattr(parts, name) if not (PATH.parents[1] / "tests" / path).exists()] == []


def test_every_environment_has_its_tests(parts: Any) -> None:
    named = [path for framework in parts.FRAMEWORKS.values() for path in framework.tests]
    named += [test.partition("::")[0] for tests in parts.EARLY.values() for test in tests]
    assert [path for path in named if not (PATH.parents[1] / path).exists()] == []
