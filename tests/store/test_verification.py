"""`doctor --store`: whatever is damaged, missing or odd in a store is named, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.api.doctor import StoreCheck
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.scorers import known_scorer
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import decompress
from ragrounds.evals.store.run_names import keep_names, kept_names
from ragrounds.evals.store.servers import keep_server
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run
from tests.compare.making import questions as asked
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions

_FILLED: dict[int, TemporaryDirectory[str]] = {}
"""Number of questions → a store with two runs of them, made once in a process."""


async def filled(home: Path, url: str | None = None, count: int = 6) -> None:
    """Make a store with two runs that share calls, with long texts, scored by the scorers of now."""
    if url is None:
        if count not in _FILLED:
            _FILLED[count] = TemporaryDirectory()
            await _fill(Path(_FILLED[count].name), None, count)
        shutil.copytree(_FILLED[count].name, home, dirs_exist_ok=True)
    else:
        await _fill(home, url, count)


async def _fill(home: Path, url: str | None, count: int) -> None:
    asked, golds = questions(count)
    long = '{"answer_choice": "A"} ' + "a long reply " * 80
    searcher = ScriptedSearcher(texts=[f"{i} " + "a passage " * 90 for i in range(3)])
    with Store(home, url) as store:
        for agent in ("vanilla_rag", "direct"):
            model = ScriptedModel(say=always(long))
            await replayed(store, [planned(store, agent, asked, golds, model, searcher)], asked, golds)


def looked_through(home: Path, url: str | None = None) -> StoreCheck:
    found = rr.doctor(store=True, progress=False, settings=Settings(home=home, store=url)).contents
    assert found is not None
    return found


async def test_a_whole_store_has_nothing_to_name(tmp_path: Path) -> None:
    await filled(tmp_path)
    found = looked_through(tmp_path)
    assert (found.found, found.findings, found.damaged) == ({}, (), 0)
    looked = {"runs": 2, "questions": 6, "attempts": 12, "scored again": 12}
    assert {what: found.checked[what] for what in looked} == looked
    assert min(found.checked[what] for what in ("scores", "recorded calls", "texts")) > 0


FIRST = "run = 1 AND question_id = (SELECT min(question_id) FROM attempts)"
DAMAGE = {
    "an attempt's body": (f"UPDATE attempts SET body = substr(body, 1, 20) WHERE {FIRST}", "attempt", "vanilla_rag-"),
    "an attempt's status": (
        f"UPDATE attempts SET status = 'fine' WHERE {FIRST}",
        "attempt",
        "the status 'fine' is none",
    ),
    "an attempt of nothing": (f"UPDATE attempts SET question_id = 'zz' WHERE {FIRST}", "attempt", "1 are of questions"),
    "an attempt that is gone": (f"DELETE FROM attempts WHERE {FIRST}", "score", "belong to missing attempts"),
    "a score": (f"UPDATE scores SET prediction = 'B' WHERE {FIRST}", "score", "does not match its checksum"),
    "a text that is gone": ("DELETE FROM blobs", "text", "a record refers to it, and it is missing"),
    "a call that is gone": ("DELETE FROM calls", "recorded call", "it is missing"),
    "a run's body": ("UPDATE runs SET body = substr(body, 2) WHERE number = 1", "run", "vanilla_rag-"),
    "a run's id": ("UPDATE runs SET id = 'other' WHERE number = 1", "run", "other"),
    "a question that is gone": ("DELETE FROM questions WHERE position = 2", "question set", "5 are present"),
    "a question's id": ("UPDATE questions SET question_id = 'x' WHERE position = 2", "question", "its columns"),
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_is_named_with_its_place(tmp_path: Path, kind: str) -> None:
    await filled(tmp_path)
    statement, noun, said = DAMAGE[kind]
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection, connection:
        assert connection.execute(statement).rowcount > 0
    found = looked_through(tmp_path)
    assert found.damaged > 0
    mine = [one for one in found.findings if one.kind == noun and one.grade == "damage"]
    assert any(said in f"{one.place}: {one.what}" for one in mine), found.findings


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("a score", "a call that is gone") else pytest.mark.slow)
        for kind in DAMAGE
        if "body" not in kind
    ],
)
async def test_damage_on_postgresql_is_named_too(url: str, tmp_path: Path, kind: str) -> None:
    await filled(tmp_path, url)
    assert looked_through(tmp_path, url).damaged == 0
    statement, noun, said = DAMAGE[kind]
    with Store(tmp_path, url) as store, store.engine.begin() as connection:
        connection.execute(sa.text(statement))
    found = looked_through(tmp_path, url)
    assert any(one.kind == noun and said in f"{one.place}: {one.what}" for one in found.findings), found.findings


async def test_a_score_that_todays_scorer_would_not_give_is_named(tmp_path: Path) -> None:
    await filled(tmp_path)
    with Store(tmp_path) as store:
        run = store.run("direct")
        first = next(one for one in store.scores(run) if known_scorer(one.scorer).name == one.scorer)
        wrong = {"value": 1.0 - (first.value or 0.0), "prediction": "C"}
        store.add_scores(run, [type(first)(**{**{k: getattr(first, k) for k in first.__struct_fields__}, **wrong})])
    found = looked_through(tmp_path)
    assert found.found == {"damage: score that differs": 1}
    (one,) = found.findings
    assert one.place.startswith(f"{run.id}, '{first.question_id}', epoch 0, {first.scorer}")
    assert "stored" in one.what
    assert "'C'" in one.what
    with Store(tmp_path) as store:
        for run in store.runs():
            store.add_scores(run, [replace(score, code="earlier") for score in store.scores(run)])
    found = looked_through(tmp_path)
    assert found.found == {"note: score that differs": 1}
    assert found.damaged == 0


async def test_the_scores_of_a_batch_are_read_by_one_statement(tmp_path: Path, statements: list[str]) -> None:
    await filled(tmp_path)
    with Store(tmp_path) as store:
        assert [len(store.score_codes(run)) > 1 for run in store.runs()] == [True, True]
    assert looked_through(tmp_path).damaged == 0
    assert sum("FROM scores" in statement and "BETWEEN" in statement for statement in statements) == 2  # of two runs


async def test_what_is_left_over_is_a_note(tmp_path: Path) -> None:
    await filled(tmp_path)
    with Store(tmp_path) as store, store.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM scores WHERE run = 2"))
        connection.execute(sa.delete(schema.meta).where(schema.meta.c.key.startswith(schema.RUN_SCORER)))
    found = looked_through(tmp_path)
    assert found.found == {"note: attempts without a score": 1}
    assert found.findings[0].what.startswith("6: `ragrounds score direct-")


async def test_lost_scores_are_damage_and_do_not_move_the_figure(
    command: Cli, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the right answers' scores the mean of the others would be 0 % where it is 25 %."""
    with Store(home) as store:
        texts = {n: f"The answer is {'A' if n % 4 == 0 else 'B'}." for n in range(20)}
        add_run(store, "direct", asked(20), ["unscored"] * 20, texts=texts)
    assert command("score", "direct").returncode == 0

    def figures() -> dict[str, float]:
        return {
            table["scorer"]: table["lines"][0]["overall"]["value"]
            for table in json.loads(command("compare", "direct", "--json").stdout)["tables"]
        }

    whole = figures()
    scorer = next(name for name, value in whole.items() if value == 0.25)
    with Store(home) as store, store.engine.begin() as connection:
        number = store.number(store.run("direct"))
        right = f"run = {number} AND value = 1 AND scorer = '{scorer}'"
        assert (lost := connection.execute(sa.text(f"DELETE FROM scores WHERE {right}")).rowcount) == 5
    found = looked_through(home)
    assert found.found == {"damage: score": lost}
    assert found.findings[0].what == "it is missing, and other answers of the run have one"
    with Store(home) as store:
        run = store.run("direct")
        notes = [note for note in compare(store, [run]).notes if "The store has lost" in note]
        assert notes[0].startswith(f"The store has lost 5 scores of {run.id} under {scorer}, and its figure leaves")
    assert figures() == whole
    assert f"had lost 5 scores of {run.id} under {scorer}: they were computed again from its answers" in caplog.text
    assert looked_through(home).found == {}


async def test_a_scorer_whose_scores_are_all_lost_is_damage(
    command: Cli, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is left of it in the table of scores; those of a judge cannot be computed."""
    with Store(home) as store:
        run = add_run(store, "direct", asked(2), [1, 0], scorer="robust")
        scores = store.scores(run)
        store.add_scores(run, [replace(score, scorer="equivalent") for score in scores])
        assert looked_through(home).damaged == 0
        with store.engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM scores"))
        assert looked_through(home).found["damage: score"] == 2
        notes = [note for note in compare(store, [run]).notes if "has lost" in note]
        assert [note.partition(":")[0] for note in notes] == [
            f"The store has lost 2 scores of {run.id} under robust, and its figure leaves these answers out",
            f"The store has lost all scores of {run.id} under equivalent",
        ]
    assert command("compare", "direct").returncode == 0
    assert f"had lost 2 scores of {run.id} under robust: they were computed again from its answers" in caplog.text
    with Store(home) as store:
        assert store.lost_scorers(run) == {"equivalent"}
        store.remove(run)
        with store.engine.connect() as connection:
            keys = connection.execute(sa.select(schema.meta.c.key)).scalars().all()
        assert not [key for key in keys if run.id in key]


async def test_a_lost_server_is_damage_and_named_in_tables(tmp_path: Path) -> None:
    await filled(tmp_path)
    server = "openai:m[server=lab]"
    with Store(tmp_path) as store:
        keep_server(store.engine, server, "", {"id": "m"})
        run = add_run(store, "served", asked(2), [1, 0], servers={server: {"id": "m"}})
        assert not [note for note in compare(store, [run]).notes if "has lost" in note]
        with store.engine.begin() as connection:
            connection.execute(sa.delete(schema.servers))
        (note,) = (note for note in compare(store, [run]).notes if "has lost" in note)
        assert note.startswith(f"The store has lost what {server} reported when it answered {run.id}")
    (finding,) = (finding for finding in looked_through(tmp_path).findings if finding.kind == "server")
    assert (finding.grade, finding.place) == ("damage", run.id)


@pytest.mark.parametrize(
    "change", ["value = 'Mine' || substr(value, 5)", "value = 'Mine'", "key = replace(key, 'direct', 'other')"]
)
async def test_a_changed_name_is_damage_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("ragrounds.base.plugins._SAID", set())
    await filled(tmp_path)
    with Store(tmp_path) as store:
        run = store.run("direct")
        keep_names(store.engine, {run.id: "Ours, the first"})
        assert kept_names(store.engine) == {run.id: "Ours, the first"}
        assert compare(store, [run]).rows[0].name == "Ours, the first"
        assert looked_through(tmp_path).found == {}
        with store.engine.begin() as connection:
            connection.execute(sa.text(f"UPDATE meta SET {change} WHERE key LIKE 'name:%'"))
        assert compare(store, [run]).rows[0].name == ""
    assert "does not match its checksum and is not used" in caplog.text
    (finding,) = looked_through(tmp_path).findings
    assert (finding.grade, finding.kind, finding.what) == ("damage", "meta", "it does not match its checksum")


async def test_the_command_says_it_and_ends_with_one(command: Cli, home: Path) -> None:
    await filled(home)
    done = command("doctor", "--store")
    assert done.returncode == 0
    assert "12 attempts" in done.stdout
    assert "damage     0 found; 0 notes" in done.stdout
    with closing(sqlite3.connect(home / "store.sqlite")) as connection, connection:
        connection.execute(DAMAGE["a score"][0])
        connection.execute("UPDATE runs SET body = substr(body, 2) WHERE number = 2")
    done = command("doctor", "--store", "--json")
    assert done.returncode == 1
    kinds = {one["kind"] for one in json.loads(done.stdout)["contents"]["findings"]}
    assert kinds == {"score", "run"}
    done = command("doctor", "--store")
    assert done.returncode == 1
    assert "damage: score, vanilla_rag-" in done.stdout


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("calls", "response"),
        ("blobs", "data"),
        pytest.param("attempts", "body", marks=pytest.mark.slow),
        pytest.param("calls", "request", marks=pytest.mark.slow),
        pytest.param("questions", "body", marks=pytest.mark.slow),
        pytest.param("runs", "body", marks=pytest.mark.slow),
    ],
)
async def test_a_flipped_bit_is_named_or_changes_nothing(tmp_path: Path, table: str, column: str) -> None:
    await filled(tmp_path)
    draw = random.Random(table + column)
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        for _ in range(6):
            (before,) = connection.execute(f"SELECT {column} FROM {table} ORDER BY random() LIMIT 1").fetchone()
            place = draw.randrange(len(before))
            after = before[:place] + bytes([before[place] ^ (1 << draw.randrange(8))]) + before[place + 1 :]
            with connection:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (after, before))
            found = looked_through(tmp_path)
            if not found.damaged:
                assert decompress(after) == decompress(before)
            with connection:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (before, after))
    assert looked_through(tmp_path).damaged == 0


async def test_a_file_with_broken_pages_is_named_in_one_line_or_more(command: Cli, home: Path) -> None:
    await filled(home)
    path = home / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    data = path.read_bytes()
    for start in (8192, 3 * 8192, len(data) // 2 // 8192 * 8192, len(data) - 8192):
        path.write_bytes(data[:start] + b"\xff" * 8192 + data[start + 8192 :])
        done = command("doctor", "--store")
        assert done.returncode in (1, 2), start
        assert "Traceback" not in done.stderr
        assert ("damage" in done.stdout) if done.returncode == 1 else ("ragrounds: " in done.stderr), start
