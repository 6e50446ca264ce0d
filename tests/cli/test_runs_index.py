"""`ragrounds runs index`, and what `doctor --store` and `gc` say of the full-text index, as they are typed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, always, questions


def made(home: Path) -> None:
    """Two runs, of four and two attempts."""
    asked, golds = questions(4)
    with Store(home) as store:
        for agent, count in (("direct", 4), ("direct_cot", 2)):
            model = ScriptedModel(say=always("A needle in it"))
            one = planned(store, agent, asked[:count], golds, model)
            asyncio.run(replayed(store, [one], asked[:count], golds))


def lose(home: Path, *tables: sa.Table) -> None:
    with Store(home) as store, store.engine.begin() as connection:
        for table in tables:
            connection.execute(sa.delete(table))


@pytest.mark.slow
def test_what_is_missing_is_said_and_made(home: Path, command: Cli) -> None:
    made(home)
    done = command("runs", "index")
    assert (done.returncode, done.stderr) == (0, "6 attempts joined the full-text index.\n")
    done = command("runs", "index")
    assert (done.returncode, done.stderr) == (0, "Nothing was missing.\n")
    lose(home, schema.text_attempts, schema.facts)
    told = command("doctor", "--store").stdout
    assert "4: `ragrounds runs index direct-" in told
    assert "2: `ragrounds runs index direct_cot-" in told
    assert json.loads(command("trace", "--where", "needle", "--format", "json").stdout)["attempts"]
    lose(home, schema.text_attempts)
    assert command("runs", "index", "direct_cot").stderr == "2 attempts joined the full-text index.\n"
    assert json.loads(command("runs", "index", "--json").stdout) == {"version": 2, "made": 4, "unreadable": 0}
    assert command("runs", "index", "--anew").stderr == "6 attempts joined the full-text index.\n"
    assert "runs index" not in command("doctor", "--store").stdout


@pytest.mark.slow
def test_gc_empties_an_index_of_which_most_is_forgotten(home: Path, command: Cli) -> None:
    made(home)
    command("runs", "rm", "direct")
    with Store(home) as store:
        [run] = store.runs()
        for _ in range(5):  # made again and again, as retries do
            with store.engine.begin() as connection:
                connection.execute(sa.delete(schema.text_attempts))
            assert command("runs", "index").returncode == 0
    done = command("runs", "gc", "--yes")
    assert "documents of the full-text index" in done.stderr
    assert "Removed." in done.stderr
    assert "documents" not in command("runs", "gc", "--dry-run").stderr
    with Store(home) as store, store.engine.connect() as connection:
        words = connection.exec_driver_sql("SELECT count(*) FROM text_words").scalar_one()
        assert words == 0
        assert len(store.done(run)) == 2
