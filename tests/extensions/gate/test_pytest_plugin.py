"""The pytest plugin, used by projects of its own: recorded once, replayed without a server, claims as failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import ragrounds as rr
from tests.servers.process import openai_server

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = any(point.value == "ragrounds.extensions.gate.pytest_plugin" for point in entry_points(group="pytest11"))
ALONE = ("-p", "no:langsmith_plugin", "-p", "no:asyncio", "-p", "no:xdist")
PLUGIN = () if INSTALLED else ("-p", "ragrounds.extensions.gate.pytest_plugin")
RECORD = "--ragrounds-record"


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What runs need is imported once: tests inside this process then find it."""
    ran = rr.run("sample", ["direct", "vanilla_rag"], limit=2, home=tmp_path_factory.mktemp("loaded"))
    str(rr.compare(ran, claims="failed(direct) <= 0", settings=ran.settings))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the tests of the project in this process."""
    return pytester.runpytest_inprocess(*ALONE, *PLUGIN, *options)


def run_process(pytester: pytest.Pytester, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of the project in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=pytester.path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=180,
    )


def journals(pytester: pytest.Pytester) -> dict[str, bytes]:
    """The journal files of the project."""
    return {str(path.relative_to(pytester.path)): path.read_bytes() for path in sorted(pytester.path.rglob("*.jsonl"))}


MARKED = """
import pytest

@pytest.mark.ragrounds({claims}, benchmark="sample", agents=["direct", "vanilla_rag[top_k=8]"], limit=12{more})
def test_search_helps(ragrounds):
    assert ragrounds.result.comparison.questions == 12
"""
HOLDS = '"accuracy(vanilla_rag) >= 20%", "accuracy(vanilla_rag) - accuracy(direct) > -0.05", "cost(direct) < 0.01"'


@pytest.mark.slow
def test_a_server_is_asked_once_and_then_never(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-3qW8planted7Zk1Lm9Xv2Bn5"
    pytester.makepyfile(
        conftest="""
        import pytest

        @pytest.fixture(scope="session")
        def ragrounds_arguments():
            return {"model": "openai:test", "base_url": "http://127.0.0.1:PORT/v1", "limit": 5}
        """,
        test_model="""
        def test_no_attempt_fails(ragrounds):
            result = ragrounds.run("sample", ["direct_cot", "vanilla_rag[top_k=2]"])
            assert len(result.runs) == 2
            ragrounds.check("failed(direct_cot) <= 0", "failed(vanilla_rag) <= 0", "tokens(vanilla_rag) > 10")
        """,
    )
    with openai_server() as server:
        conftest = pytester.path / "conftest.py"
        conftest.write_text(conftest.read_text().replace("PORT", str(server.port)))
        first = run(pytester)  # replaying is the default, and nothing is there
        first.assert_outcomes(failed=1)
        first.stdout.fnmatch_lines(["*There is no journal file *test_no_attempt_fails.jsonl yet*"])
        first.stdout.fnmatch_lines(["*pytest --ragrounds-record 'test_model.py::test_no_attempt_fails'*"])
        assert server.stats()["asked"] == 0
        with monkeypatch.context() as keyed:
            keyed.setenv("OPENAI_API_KEY", key)
            run(pytester, RECORD).assert_outcomes(passed=1)
        assert server.stats()["keys_seen"] == [f"Bearer {key}"]
        assert server.stats()["asked"] == 10
        written = journals(pytester)
        assert list(written) == ["ragrounds_journal/test_model/test_no_attempt_fails.jsonl"]
        assert key.encode() not in b"".join(written.values())
        # Nothing has changed, so nobody is asked again and the file is the same.
        run(pytester, RECORD).assert_outcomes(passed=1)
        assert (server.stats()["asked"], journals(pytester)) == (10, written)
    replayed = run(pytester)  # no server, no key
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(
        ["*test_no_attempt_fails: 3 claims hold; 10 model calls from *test_model/test_no_attempt_fails.jsonl"]
    )
    assert journals(pytester) == written


@pytest.mark.slow
def test_what_is_asked_differently_is_named_and_not_sent(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED.format(claims=HOLDS, more=""))
    run(pytester, RECORD).assert_outcomes(passed=1)
    pytester.makepyfile(MARKED.format(claims=HOLDS, more=", seed=4"))
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["*this call is not in the journal: *", "*The calls have changed since they were recorded.*"]
    )
    before = len(next(iter(journals(pytester).values())))
    run(pytester, RECORD).assert_outcomes(passed=1)  # what the other questions needed is gone from the file
    assert len(next(iter(journals(pytester).values()))) < 1.5 * before
    run(pytester).assert_outcomes(passed=1)


def test_a_failure_shows_the_claim_the_questions_and_the_table(pytester: pytest.Pytester) -> None:
    claims = '"accuracy(vanilla_rag) > 99%", "failed(direct) <= 0"'
    pytester.makepyfile(
        test_marked=MARKED.format(claims=claims, more=""),
        test_called="""
        def test_called(ragrounds):
            result = ragrounds.run("sample", ["direct", "vanilla_rag[top_k=8]"], limit=18)
            ragrounds.check("accuracy(direct) - accuracy(vanilla_rag) > 0.3 @ 95%", runs=result)
        """,
    )
    done = run(pytester, RECORD)
    done.assert_outcomes(failed=2)
    text = done.stdout.str()
    assert "1 of 2 claims does not hold: accuracy(vanilla_rag) > 99%" in text
    assert "question" in text
    done.stdout.fnmatch_lines(["*speak* against accuracy(vanilla_rag) > 0.99:", "  sample/*, sample/*"])
    done.stdout.fnmatch_lines(["holds: failed(direct) <= 0*", "agent *robust *95 %*"])
    done.stdout.fnmatch_lines(["> *ragrounds.check(*", "E *of 1 claim does not hold*"])
    assert "evaluation_fixture.py" not in text  # no frame of ours
    assert "FAILED test_marked.py::test_search_helps - Failed: 1 of 2 claims" in text


@pytest.mark.slow
def test_a_claim_that_cannot_be_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        AGENTS = {"agents": ["direct", "vanilla_rag[top_k=8]"], "limit": 12, "journal": "one"}
        CLAIM = "accuracy(vanilla_rag) - accuracy(direct) > 0.4 @ 95%"

        @pytest.mark.ragrounds(CLAIM, **AGENTS)
        def test_fails(): ...

        @pytest.mark.ragrounds(CLAIM, undecided="skip", **AGENTS)
        def test_is_skipped(): ...

        @pytest.mark.ragrounds(CLAIM, undecided="pass", **AGENTS)
        def test_passes(): ...
        """
    )
    done = run(pytester, RECORD, "-rs")
    done.assert_outcomes(failed=1, skipped=1, passed=1)
    said = "undecided: accuracy(vanilla_rag) - accuracy(direct) > 0.4 @ 95%"
    done.stdout.fnmatch_lines([f"{said}*", "  a claim with a level needs 10 questions or more"])
    done.stdout.fnmatch_lines([f"SKIPPED*{said}*"])
    assert done.stdout.str().count(": 1 claim is undecided; ") == 3


def test_a_wrong_argument_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_agent(ragrounds):
            ragrounds.run("sample", agents=["direkt"])

        def test_name(ragrounds):
            ragrounds.run("sample", agents=["direct"], limits=3)

        def test_journal(ragrounds):
            ragrounds.run("sample", agents=["direct"], journal="reuse")

        def test_nothing_run(ragrounds):
            ragrounds.check("accuracy(direct) > 0.1")
        """
    )
    done = run(pytester, RECORD)
    done.assert_outcomes(failed=4)
    for says in (
        "Did you mean 'direct'",
        "ragrounds.run() has no argument 'limits'. Did you mean 'limit'",
        "journal cannot be set in a test",
        "Nothing has been run in this test yet",
    ):
        done.stdout.fnmatch_lines([f"E *{says}*"])
    assert "_settings" not in done.stdout.str()  # no frame of ours


def test_calls_that_cannot_be_recorded_are_said_and_never_replayed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot="""
        import os

        def ask(question):
            os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
            return "The answer is B."
        """,
        test_bot="""
        def test_it(ragrounds):
            ragrounds.run("sample", "./bot.py:ask", limit=2)
        """,
    )
    recording = run(pytester, RECORD)
    recording.assert_outcomes(failed=1)
    recording.stdout.fnmatch_lines(
        ["*Calls of ./bot.py:ask cannot be recorded, *", "*2 attempts are not recorded (a process: true)*"]
    )
    replay = run(pytester)
    replay.assert_outcomes(failed=1)
    replay.stdout.fnmatch_lines(["*Replay: *a process: true* no journal holds*"])


SHARED = """
import pytest

pytestmark = pytest.mark.ragrounds("failed(direct) <= 0", agents=["direct"], limit=8, journal="all of them")

@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_share(ragrounds, share):
    ragrounds.check(f"accuracy(direct) < 1 - {share}")
"""


@pytest.mark.slow
def test_several_tests_share_a_journal_file_in_the_folder_of_the_project(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nragrounds_journal = recorded/calls\n")
    pytester.makepyfile(
        test_shared=SHARED, test_own="def test_own(ragrounds):\n    ragrounds.run(agents=['direct'], limit=2)\n"
    )
    done = run(pytester, RECORD)
    done.assert_outcomes(passed=4)
    assert list(journals(pytester)) == ["recorded/calls/all_of_them.jsonl", "recorded/calls/test_own/test_own.jsonl"]
    done.stdout.fnmatch_lines(
        ["*test_share*0.1*: 2 claims hold; 6 model calls made, 2 from before; *all_of_them.jsonl has 8 calls"]
    )
    done.stdout.fnmatch_lines(["*test_share*0.3*: 2 claims hold; 0 model calls made, *"])
    run(pytester).assert_outcomes(passed=4)


def test_a_project_that_does_not_use_it_pays_nothing(pytester: pytest.Pytester) -> None:
    """Neither imports nor words; the process says what it has imported."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_it_is_there():
            assert "ragrounds.extensions.gate.pytest_plugin" in sys.modules
            own = {name for name in sys.modules if name.split(".")[0] == "ragrounds"}
            folder = "ragrounds.extensions.gate"
            assert own == {"ragrounds", "ragrounds.version", "ragrounds.extensions", folder, f"{folder}.pytest_plugin"}
            heavy = {"langgraph", "langchain_core", "openai", "sqlalchemy", "numpy", "msgspec", "typer", "rich"}
            assert not heavy & set(sys.modules)
        """
    )
    plugins = {"PYTEST_PLUGINS": "ragrounds.extensions.gate.pytest_plugin"} if INSTALLED else {}
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **plugins}
    done = run_process(pytester, "-q", *PLUGIN, "-p", "no:hypothesispytest", **alone)
    assert done.returncode == 0, done.stdout
    assert "ragrounds" not in done.stdout


@pytest.mark.slow
def test_what_an_installed_plugin_s_package_is_imported_by_changes_nothing(pytester: pytest.Pytester) -> None:
    """pytest imports it with a loader of its own, which rewrites assertions: graphs are found, digests are the same."""
    from ragrounds.graphs import catalogue

    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('ragrounds')\n")
    pytester.makepyfile(
        f"""
        def test_graphs():
            from ragrounds.graphs import catalogue

            assert type(catalogue.__loader__).__name__ == "AssertionRewritingHook"
            assert catalogue.names() == {catalogue.names()!r}
            assert catalogue.digest("vanilla_rag") == {catalogue.digest("vanilla_rag")!r}
        """
    )
    done = run_process(pytester, "-q", *ALONE)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_an_async_test_and_no_asyncio_plugin(pytester: pytest.Pytester) -> None:
    """The fixture needs no loop, and may be called where one runs."""
    pytester.makepyfile(
        """
        import asyncio

        def test_inside_a_loop(ragrounds):
            async def inside():
                return ragrounds.run("sample", "direct", limit=2)

            assert len(asyncio.run(inside()).runs) == 1
            ragrounds.check("failed(direct) <= 0")
        """
    )
    strict = ("--strict-markers", "-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    run(pytester, RECORD, *strict).assert_outcomes(passed=1)
    run(pytester, *strict).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps", [[(RECORD,)], pytest.param([(RECORD,), ()], marks=pytest.mark.weekly)], ids=["record", "replay"]
)
def test_workers_of_xdist_share_nothing_but_the_files(pytester: pytest.Pytester, steps: list[tuple[str, ...]]) -> None:
    pytester.makepyfile(
        test_shared=SHARED,
        test_marked=MARKED.format(claims=HOLDS, more="")
        + MARKED.format(claims=HOLDS, more=", seed=1").replace("helps", "too"),
    )
    workers = ("-p", "no:langsmith_plugin", "-p", "no:asyncio", *PLUGIN, "-n", "2")
    for options in steps:
        done = run_process(pytester, *workers, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(" hold; ") == 5, done.stdout
    run(pytester).assert_outcomes(passed=5)  # one process reads what several have written
    assert [Path(name).name for name in journals(pytester)] == [
        "all_of_them.jsonl", "test_search_helps.jsonl", "test_search_too.jsonl"
    ]  # fmt: skip
    alone = {name: file for name, file in journals(pytester).items() if "all" in name}
    assert sum(line.startswith(b'{"kind"') for line in alone["ragrounds_journal/all_of_them.jsonl"].splitlines()) == 8


@pytest.mark.slow
def test_what_was_recorded_until_ctrl_c_is_kept(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with openai_server("--latency", "0.5") as server:
        pytester.makepyfile(
            f"""
            def test_it(ragrounds):
                model = {{"model": "openai:test", "base_url": "{server.url}"}}
                ragrounds.run("sample", "direct_cot", limit=24, concurrency=2, **model)
                ragrounds.check("failed(direct_cot) <= 0")
            """
        )
        command = [sys.executable, "-m", "pytest", *ALONE, *PLUGIN, RECORD]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            command, cwd=pytester.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            while server.stats()["answered"] < 4:
                time.sleep(0.05)
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        assert process.returncode == 2, said  # pytest's code for an interrupted session
        (written,) = journals(pytester).values()
        kept = written.count(b'{"kind"')
        assert 4 <= kept < 24
        assert kept == server.stats()["answered"]
        run(pytester, RECORD).assert_outcomes(passed=1)
        assert server.stats()["answered"] == 24  # none of them twice
        assert server.stats()["answered_twice"] == []


@pytest.mark.slow
def test_a_gate_is_a_test(pytester: pytest.Pytester) -> None:
    policy = """
        [runs]
        new = "vanilla_rag[top_k=8]"
        old = "direct"
        [run]
        limit = 40
        [critical]
        "not worse" = "accuracy(new) - accuracy(old) > %s"
        """
    for name, limit in (("good", "-30%"), ("bad", "95%"), ("open", "38%")):
        (pytester.path / f"{name}.toml").write_text(policy % limit)
    pytester.makepyfile(
        test_gates="""
        def test_good(ragrounds):
            assert ragrounds.gate("good.toml").verdict == "GO"

        def test_bad(ragrounds):
            ragrounds.gate("bad.toml")

        def test_open(ragrounds):
            ragrounds.gate("open.toml", undecided="skip")
        """
    )
    first = run(pytester, "-k", "good")
    first.assert_outcomes(failed=1, deselected=2)
    first.stdout.fnmatch_lines(["*There is no journal file *"])
    run(pytester, RECORD).assert_outcomes(passed=1, failed=1, skipped=1)
    done = run(pytester, "-rs")
    done.assert_outcomes(passed=1, failed=1, skipped=1)
    done.stdout.fnmatch_lines(["*NO-GO after * of * questions: critical 'not worse' fails.*"])
    done.stdout.fnmatch_lines(["*UNDECIDED after *"])
