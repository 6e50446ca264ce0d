"""The pytest plugin: a fixture and a marker `ragrounds`, for claims about agents as tests.

    @pytest.mark.ragrounds("accuracy(direct) >= 20% @ 95%", benchmark="sample", agents=["direct"], limit=40)
    def test_it_answers(ragrounds): ...

Models' replies come from a journal file beside the test, which is committed: nothing is sent. `--ragrounds-record` asks
the models for what the file lacks, and writes it. docs/how-to/ci.md says more.

pytest imports this file whenever it starts, so it imports nothing of ours before a test uses the fixture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pytest

    from ragrounds.api.evaluation_fixture import EvaluationFixture

_FOLDER = "ragrounds_journal"
"""Beside a test's file: its journal files."""
_PROPERTY = "ragrounds"
"""Of a test's report: what its runs and claims came to, as JSON."""
_OF_CHECK = ("undecided", "scorer", "common")
"""Arguments of a marker that are for the claims, not for the run."""
_MOST = 30
"""Tests that the terminal's summary names."""


class _Named(Protocol):
    __name__: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options."""
    group = parser.getgroup("ragrounds", "claims about agents (ragrounds)")
    group.addoption(
        "--ragrounds-record",
        action="store_true",
        help="Make the calls that are missing in journal files, and write them. Without it nothing is sent.",
    )
    parser.addini(
        "ragrounds_journal",
        help="Folder of journal files, from the root folder of the project. Default: ragrounds_journal beside a test.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and the fixtures."""
    config.addinivalue_line(
        "markers",
        "ragrounds(*claims, journal=None, undecided='fail', scorer=None, **arguments): run agents as "
        "ragrounds.run(**arguments) does, answered from a journal file, and check the claims about them.",
    )
    config.pluginmanager.register(_hooks(config), "ragrounds-fixtures")


def _hooks(config: pytest.Config) -> ModuleType:
    """The fixtures, and what happens around tests that use them, as pytest takes them. (pytest is no dependency of
    ours, and the command line imports every file of this folder.)"""
    import pytest

    hooks = ModuleType("ragrounds_fixtures")
    for one in (*_fixtures(config), *_report_hooks(config)):
        setattr(hooks, one.__name__, one)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """A marked test needs not name the fixture."""
        for item in items:
            names = getattr(item, "fixturenames", None)
            if names is not None and "ragrounds" not in names and item.get_closest_marker("ragrounds"):
                names.append("ragrounds")

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Run and check what a marker says, then the test itself."""
        made = pyfuncitem.funcargs.get("ragrounds")
        if made is None:
            return (yield)
        from ragrounds.api.evaluation_fixture import EvaluationFixture

        if not isinstance(made, EvaluationFixture):  # a project's own fixture of this name
            return (yield)
        claims, given = _marked(pyfuncitem)
        if claims:
            failed = ""
            try:
                made.run_marked(claims, {name: given[name] for name in _OF_CHECK if name in given})
            except AssertionError as error:
                failed = str(error)
            if failed:
                pytest.fail(failed, pytrace=False)
        done = yield
        made.passed = True
        return done

    for hook in (pytest_collection_modifyitems, pytest_pyfunc_call):
        setattr(hooks, hook.__name__, hook)
    return hooks


def _fixtures(config: pytest.Config) -> tuple[_Named, ...]:
    """The fixtures."""
    import pytest

    homes: dict[Path, Path] = {}

    @pytest.fixture(scope="session")
    def ragrounds_arguments() -> Mapping[str, object]:
        """Arguments of ragrounds.run that tests leave open: override it in conftest.py."""
        return {}

    @pytest.fixture
    def ragrounds(
        request: pytest.FixtureRequest,
        ragrounds_arguments: Mapping[str, object],
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[EvaluationFixture]:
        """Run agents on a benchmark, answered from a journal file, and check claims about them."""
        from ragrounds.api.evaluation_fixture import EvaluationFixture, PlaceOfTest

        given = {name: value for name, value in _marked(request.node)[1].items() if name not in _OF_CHECK}
        folder = _journal_folder(request.node)
        journal, shared = _journal_file(request.node, folder, given.pop("journal", None))
        if journal not in homes:
            homes[journal] = tmp_path_factory.mktemp("ragrounds")
        place = PlaceOfTest(
            folder=request.node.path.parent,
            journals=folder,
            journal=journal,
            shared=shared,
            home=homes[journal],
            indexes=_indexes(config, homes[journal]),
            prices=folder / "prices.toml",
            record=bool(config.getoption("--ragrounds-record")),
            again=f"pytest --ragrounds-record '{request.node.nodeid}'",
        )
        made = EvaluationFixture(place, {**ragrounds_arguments, **given})
        yield made
        written = made.close()
        if told := made.told(written):
            shown = journal.relative_to(config.rootpath) if journal.is_relative_to(config.rootpath) else journal
            request.node.user_properties.append((_PROPERTY, json.dumps({**told, "journal": str(shown)})))

    return ragrounds_arguments, ragrounds


def _report_hooks(config: pytest.Config) -> tuple[_Named, ...]:
    """What tells how the tests went."""
    reported: dict[str, Mapping[str, object]] = {}

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        """Keep what a test's runs came to; under xdist every worker's reports come here."""
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == _PROPERTY:
                reported[report.nodeid] = json.loads(str(value))

    def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
        """Say how the claims stand."""
        if not reported or hasattr(config, "workerinput"):
            return
        terminalreporter.section("ragrounds")
        for line in _summary_lines(reported):
            terminalreporter.write_line(line)

    return pytest_runtest_logreport, pytest_terminal_summary


def _marked(node: pytest.Item) -> tuple[list[str], dict[str, object]]:
    """The claims of all markers of a test, its own last, and their arguments: the nearest counts."""
    claims, given = list[str](), dict[str, object]()
    for marker in reversed(list(node.iter_markers("ragrounds"))):
        claims += [str(claim) for claim in marker.args]
        given |= marker.kwargs
    return claims, given


def _journal_folder(node: pytest.Item) -> Path:
    """Where the journal files of a test's folder, or of the project, are."""
    named = str(node.config.getini("ragrounds_journal") or "")
    return node.config.rootpath / named if named else node.path.parent / _FOLDER


def _journal_file(node: pytest.Item, folder: Path, named: object) -> tuple[Path, bool]:
    """The journal file of a test, and whether others share it."""
    from ragrounds.base.text import file_name

    if named is not None:
        return folder / f"{file_name(str(named))}.jsonl", True
    test, file = node.nodeid.partition("::")[2], node.path.with_suffix("")
    name = file_name(test)
    if name != test:
        name += f"-{hashlib.sha256(test.encode()).hexdigest()[:6]}"
    above = folder.parent if file.is_relative_to(folder.parent) else file.parent
    return folder / file.relative_to(above) / f"{name}.jsonl", False


def _indexes(config: pytest.Config, home: Path) -> Path:
    """Where this process keeps indexes of corpora until the next session: not even workers share it."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return home / "own-indexes"
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    return Path(cache.mkdir("ragrounds")) / str(worker)


def _summary_lines(reported: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """A line for each test that ran agents."""
    from ragrounds.ui.text import number_of

    for nodeid, told in list(reported.items())[:_MOST]:
        calls = f"{told['reused']:,} model calls from {told['journal']}"
        if "recorded" in told:
            calls = f"{told['made']:,} model calls made, {told['reused']:,} from before"
            calls += f"; {told['journal']} has {told['recorded']}"
        yield f"{nodeid}: {told['claims'] or 'no claim'}; {calls}"
    if len(reported) > _MOST:
        yield f"… and {number_of(len(reported) - _MOST, 'test')} more"
