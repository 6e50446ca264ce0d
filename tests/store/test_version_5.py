"""A store, an export file and a `--json` of version 5, with real runs: opened, shown, compared, judged, resumed, moved.

`stores/make_version_5.py` says how they were made by the release that wrote that version.
"""

import json

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.sequential_stop import stop_records
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.database import open_source
from ragrounds.evals.store.garbage import collect_garbage
from ragrounds.evals.store.ledger import ledger
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.evals.store.traces import every_trace
from ragrounds.evals.store.transfer import copy_runs, read_runs
from ragrounds.records import FINAL
from tests.store.old import STORES, old_store, old_store_on_postgresql
from tests.store.test_migrations import shape

SAID = json.loads((STORES / "version_5.json").read_text())
STATUSES = {"refused": "blocked"}
TWO = ("direct-51df1f", "vanilla_rag-top_k-2-8e518b")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """The store of version 5, opened by the code of today, on both databases."""
    url = None
    if request.param == "postgresql":
        url = request.getfixturevalue("url")
        old_store_on_postgresql(url, tmp_path / "scratch", 5)
    else:
        old_store(tmp_path / "home", 5)
    with Store(tmp_path / "home", url) as opened:
        yield opened


def test_it_has_the_tables_of_today(store, tmp_path):
    with store.engine.connect() as connection:
        assert connection.execute(sa.select(schema.meta.c.value)).scalars().first() == str(schema.VERSION)
    if store.engine.dialect.name == "sqlite":
        with Store(tmp_path / "new") as new:
            assert shape(store.engine) == shape(new.engine)


def test_every_attempt_call_and_score_is_read(store):
    runs = {run.id: run for run in store.runs()}
    assert len(runs) == 6
    direct, searching = (runs[id] for id in TWO)
    assert sorted(store.done(direct).values()) == ["blocked"] * 2 + ["completed"] * 4
    assert sum(score.answer_status == "unreadable" for score in store.scores(searching, "mirage")) == 2
    for run in runs.values():
        for traced in every_trace(store, run):
            calls = [call for step in traced.steps for call in step.calls]
            if run.id in TWO:
                assert traced.attempt.cost_paid == pytest.approx(sum(call.call.cost_uncached for call in calls))
            for call in calls:
                assert call.reply or call.passages or call.call.error
    (judged,) = (run for run in runs.values() if run.agent == "long")
    assert store.judges(judged)
    assert len(store.graded(judged)) == 2
    rows = Pages(store, [direct]).read(range(6))
    assert sum(row.outcome == "blocked" for row in rows) == 2
    assert {row.cost_uncached for row in rows} == {one.cost_uncached for one in store.attempts(direct)}


def test_figures_are_those_that_its_own_release_gave(store):
    comparison = json.loads(json.dumps(_builtins(compare(store, [store.run(id) for id in TWO]))))
    for old, new in zip(SAID["compare"]["rows"], comparison["rows"], strict=True):
        assert {STATUSES.get(name, name): n for name, n in old["statuses"].items()} == new["statuses"]
        assert (old["spent"], old["cold"], old["calls"]) == (new["cost_paid"], new["cost_uncached"], new["calls"])
    by_scorer = {table["scorer"]: table for table in comparison["tables"]}
    for table in SAID["compare"]["tables"]:
        if table["protocol"] not in by_scorer:
            continue
        for old, new in zip(table["lines"], by_scorer[table["protocol"]]["lines"], strict=True):
            assert old["overall"]["value"] == pytest.approx(new["overall"]["value"])
            assert old["overall"]["n"] == new["overall"]["n"]
    assert {"strict"} <= set(by_scorer)
    total = _builtins(ledger(store, [store.run(id) for id in TWO], ()))["total"]
    assert total["cost_paid"] == pytest.approx(SAID["ledger"]["total"]["spent"])
    assert total["calls"] == SAID["ledger"]["total"]["calls"]


def test_arena_stops_and_judged_calls_are_read(store):
    arenas = ArenaStore(store)
    assert len(arenas.arenas()) == 1
    details = list(arenas.details(1))
    assert len(details) == 2
    assert all(call.cost_uncached is None for _, detail in details for call in detail.calls)
    stopped = [stop for run in store.runs() for stop in stop_records(store, run)]
    assert len(stopped) == 2


@pytest.mark.slow
def test_garbage_collection_finds_nothing_to_take(store):
    found = collect_garbage(store.engine, FINAL, hours=0)
    assert (found.calls.count, found.texts.count, found.questions.count) == (0, 0, 0)


def test_an_export_file_is_imported(store, tmp_path):
    """Into a store that has the runs already, and into an empty one; the file stays as it was."""
    file = old_store(tmp_path, 5, "runs.ragrounds", ".export")
    before = file.read_bytes()
    with Store(tmp_path / "empty") as empty, open_source(str(file)) as engine:
        assert copy_runs(engine, empty.engine, read_runs(engine), FINAL).runs == TWO
        again = copy_runs(engine, store.engine, read_runs(engine), FINAL)
        assert (again.runs, again.present, again.calls, again.differing) == ((), TWO, 0, 0)
        for id in TWO:
            mine, other = empty.run(id), store.run(id)
            assert sorted(map(repr, empty.attempts(mine))) == sorted(map(repr, store.attempts(other)))
    assert file.read_bytes() == before


def test_its_arenas_are_the_same_arenas(store):
    """What their fingerprints cover has grown since: a setting that they did not have leaves them as they were."""
    with store.engine.connect() as connection:
        stored = [row.fingerprint for row in connection.execute(sa.select(schema.arenas).order_by(schema.arenas.c.id))]
    assert sorted(arena.fingerprint for arena in ArenaStore(store).arenas()) == sorted(stored)


@pytest.mark.slow
def test_by_command(cli, tmp_path):
    """Shown and compared as its user would."""
    old_store(tmp_path / "home", 5)
    for command in (
        ("runs", "ls"),
        ("compare", *TWO),
        ("ledger", *TWO),
        ("arena", "show"),
        ("runs", "show", "direct_cot"),
    ):
        done = cli(*command)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_of_code_that_does_something_else_now_is_not_resumed(cli, tmp_path):
    """Strategies have prompts of their own for extraction since: the run would be another. It says what changed, and
    stays as it is."""
    old_store(tmp_path / "home", 5)
    done = cli("runs", "resume", "direct_cot", "--display", "none", "--json")
    assert done.returncode == 2
    assert "cannot be resumed" in done.stderr
    assert "prompts" in done.stderr
    assert "What it has stays" in done.stderr
    with Store(tmp_path / "home") as store:
        assert len(store.done(store.run("direct_cot"))) < 6
        assert len(store.runs()) == 6


NOWHERE = 'openai:writer[alias=desk,base_url="http://127.0.0.1:9/v1"]'
"""The model of that release's runs, at an address where nobody listens."""


@pytest.mark.slow
def test_the_same_command_repeats_no_model_call_of_the_release_before(cli, tmp_path):
    """What strategies do has changed, so these are other runs; every call of a model comes from the journal."""
    old_store(tmp_path / "home", 5)
    two = ("--agent", "direct", "--agent", "vanilla_rag[top_k=2]", "--limit", "3", "--epochs", "2")
    command = ("run", *two, "--model", NOWHERE, "--display", "none", "--yes", "--json")
    done = cli(*command)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["run"] in TWO for row in rows] == [False, False]
    with Store(tmp_path / "home") as store:
        before = {store.run(id).agent: sorted(store.done(store.run(id)).values()) for id in TWO}
        after = {store.run(row["run"]).agent: sorted(store.done(store.run(row["run"])).values()) for row in rows}
    assert after == before
    again = cli(*command, "--new", "--journal", "replay")
    assert again.returncode == 0, again.stderr
    assert "0 calls made" in again.stderr


@pytest.mark.slow
def test_scores_whose_code_the_release_did_not_keep_are_made_again_for_nothing(cli, tmp_path):
    old_store(tmp_path / "home", 5)
    with Store(tmp_path / "home") as store:
        before = {run.id: sorted(store.scores(run), key=str) for run in store.runs()}
        assert all(codes == {""} for run in store.runs() for codes in store.score_codes(run).values())
    for run in before:
        done = cli("compare", run)
        assert done.returncode == 0, done.stderr
        assert "anew" not in done.stdout
    with Store(tmp_path / "home") as store:
        for run in store.runs():
            assert all("" not in codes for codes in store.score_codes(run).values()), run.id
            again = sorted((replace(score, code="") for score in store.scores(run)), key=str)
            # A filter's block left no text: that was read as refused, and is empty (its attempt's status is blocked).
            blocked = {key for key, status in store.done(run).items() if status == "blocked"}
            expected = [
                replace(score, answer_status="empty") if (score.question_id, score.epoch) in blocked else score
                for score in before[run.id]
            ]
            assert again == sorted(expected, key=str)


def _builtins(record):
    import msgspec

    return msgspec.to_builtins(record)
