"""The pytest plugin: a fixture and a marker `ragrounds`, for claims about agents as tests.

    @pytest.mark.ragrounds("accuracy(direct) >= 20% @ 95%", benchmark="sample", agents=["direct"], limit=40)
    def test_it_answers(ragrounds): ...

Models' replies come from a journal file next to the test, which is committed: nothing is sent. `--ragrounds-record`
asks the models for replies that the file lacks, and writes it. docs/how-to/ci.md says more.

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

    from ragrounds.extensions.gate.evaluation_fixture import EvaluationFixture

_FOLDER = "ragrounds_journal"
"""Folder of journal files, next to a test's file."""
_PROPERTY = "ragrounds"
"""Property of a test's report: the summary of its runs and claims, as JSON."""
_CHECK_ARGUMENTS = ("undecided", "scorer", "common")
"""Arguments of a marker that are for the claims, not for the run."""
_MAX_SUMMARY_LINES = 30
"""Maximum number of tests in the terminal's summary."""


class _Named(Protocol):
    __name__: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("ragrounds", "claims about agents (ragrounds)")
    group.addoption(
        "--ragrounds-record",
        action="store_true",
        help="Make the calls that are missing in journal files, and write them. Without it nothing is sent.",
    )
    parser.addini(
        "ragrounds_journal",
        help="Folder of journal files, from the project's root. Default: ragrounds_journal in the test's folder.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the fixtures."""
    config.addinivalue_line(
        "markers",
        "ragrounds(*claims, journal=None, undecided='fail', scorer=None, **arguments): run agents as "
        "ragrounds.run(**arguments) does, answered from a journal file, and check the claims about them.",
    )
    config.pluginmanager.register(_hooks(config), "ragrounds-fixtures")


def _hooks(config: pytest.Config) -> ModuleType:
    """Return the fixtures, and the hooks around tests that use them, as a module for pytest.

    They are defined here so that this file can be imported without pytest, which is no dependency of ours.
    """
    import pytest

    hooks = ModuleType("ragrounds_fixtures")
    for function in (*_fixtures(config), *_report_hooks(config)):
        setattr(hooks, function.__name__, function)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Add the fixture to marked tests that do not name it."""
        for item in items:
            names = getattr(item, "fixturenames", None)
            if names is not None and "ragrounds" not in names and item.get_closest_marker("ragrounds"):
                names.append("ragrounds")

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Run and check the arguments of a marker, then the test itself."""
        evaluation = pyfuncitem.funcargs.get("ragrounds")
        if evaluation is None:
            return (yield)
        from ragrounds.extensions.gate.evaluation_fixture import EvaluationFixture

        if not isinstance(evaluation, EvaluationFixture):  # a project's own fixture of this name
            return (yield)
        claims, arguments = _marker_arguments(pyfuncitem)
        if claims:
            failed = ""
            try:
                evaluation.run_marked(claims, {name: arguments[name] for name in _CHECK_ARGUMENTS if name in arguments})
            except AssertionError as error:
                failed = str(error)
            if failed:
                pytest.fail(failed, pytrace=False)
        done = yield
        evaluation.passed = True
        return done

    for hook in (pytest_collection_modifyitems, pytest_pyfunc_call):
        setattr(hooks, hook.__name__, hook)
    return hooks


def _fixtures(config: pytest.Config) -> tuple[_Named, ...]:
    """Return the fixtures."""
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
        from ragrounds.extensions.gate.evaluation_fixture import EvaluationFixture, FixturePaths

        arguments = {
            name: value for name, value in _marker_arguments(request.node)[1].items() if name not in _CHECK_ARGUMENTS
        }
        configured = str(config.getini("ragrounds_journal") or "")
        folder = config.rootpath / configured if configured else request.node.path.parent / _FOLDER
        journal, shared = _journal_file(request.node, folder, arguments.pop("journal", None))
        if journal not in homes:
            homes[journal] = tmp_path_factory.mktemp("ragrounds")
        test_place = FixturePaths(
            folder=request.node.path.parent,
            journals=folder,
            journal=journal,
            shared=shared,
            home=homes[journal],
            indexes=_index_folder(config, homes[journal]),
            prices=folder / "prices.toml",
            record=bool(config.getoption("--ragrounds-record")),
            again=f"pytest --ragrounds-record '{request.node.nodeid}'",
        )
        evaluation = EvaluationFixture(test_place, {**ragrounds_arguments, **arguments})
        yield evaluation
        journal_file = evaluation.close()
        if summary := evaluation.summary(journal_file):
            journal_path = journal.relative_to(config.rootpath) if journal.is_relative_to(config.rootpath) else journal
            request.node.user_properties.append((_PROPERTY, json.dumps({**summary, "journal": str(journal_path)})))

    return ragrounds_arguments, ragrounds


def _report_hooks(config: pytest.Config) -> tuple[_Named, ...]:
    """Return the hooks that report the results of the tests."""
    reported: dict[str, Mapping[str, object]] = {}

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        """Record the summary of a test's runs. Under xdist every worker's reports arrive here."""
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == _PROPERTY:
                reported[report.nodeid] = json.loads(str(value))

    def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
        """Print the decisions on the claims."""
        if not reported or hasattr(config, "workerinput"):
            return
        terminalreporter.section("ragrounds")
        for line in _summary_lines(reported):
            terminalreporter.write_line(line)

    return pytest_runtest_logreport, pytest_terminal_summary


def _marker_arguments(node: pytest.Item) -> tuple[list[str], dict[str, object]]:
    """Return the claims of all markers of a test, its own last, and their arguments: the nearest marker counts."""
    claims, arguments = list[str](), dict[str, object]()
    for marker in reversed(list(node.iter_markers("ragrounds"))):
        claims += [str(claim) for claim in marker.args]
        arguments |= marker.kwargs
    return claims, arguments


def _journal_file(node: pytest.Item, folder: Path, name_given: object) -> tuple[Path, bool]:
    """Return the journal file of a test, and True if others share it."""
    from ragrounds.base.text import file_name

    if name_given is not None:
        return folder / f"{file_name(str(name_given))}.jsonl", True
    test, file = node.nodeid.partition("::")[2], node.path.with_suffix("")
    name = file_name(test)
    if name != test:
        name += f"-{hashlib.sha256(test.encode()).hexdigest()[:6]}"
    above = folder.parent if file.is_relative_to(folder.parent) else file.parent
    return folder / file.relative_to(above) / f"{name}.jsonl", False


def _index_folder(config: pytest.Config, home: Path) -> Path:
    """Return the folder of this process's indexes of corpora until the next session: not even workers share it."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return home / "own-indexes"
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    return Path(cache.mkdir("ragrounds")) / str(worker)


def _summary_lines(reported: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Yield a line for each test that ran agents."""
    from ragrounds.ui.text import number_of

    for nodeid, summary in list(reported.items())[:_MAX_SUMMARY_LINES]:
        calls = f"{summary['reused']:,} model calls from {summary['journal']}"
        if "recorded" in summary:
            calls = f"{summary['made']:,} model calls made, {summary['reused']:,} from before"
            calls += f"; {summary['journal']} has {summary['recorded']}"
        yield f"{nodeid}: {summary['claims'] or 'no claim'}; {calls}"
    if len(reported) > _MAX_SUMMARY_LINES:
        yield f"… and {number_of(len(reported) - _MAX_SUMMARY_LINES, 'test')} more"
