"""Two processes do not make one run; whoever is dead holds nothing for long; no clock is trusted."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.evals.store import leases as leasing
from ragrounds.evals.store import schema
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.store import Store
from tests.forked import run_python


def held(store: Store) -> list[str]:
    with store.engine.connect() as connection:
        return sorted(connection.execute(sa.select(schema.leases.c.run)).scalars())


def change(store: Store, **values: object) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.update(schema.leases).values(**values))


def test_a_second_start_is_refused_in_one_line_until_the_first_has_ended(store: Store) -> None:
    with Lease(store.engine, ["b", "a"]):
        assert held(store) == ["a", "b"]
        with pytest.raises(UserError, match=rf"run b is being made by process {os.getpid()} on .*`new=True`"):
            Lease(store.engine, ["0", "b"]).__enter__()
        assert held(store) == ["a", "b"], "what the refused one had taken already is given back"
        with Lease(store.engine, ["c"]):
            assert held(store) == ["a", "b", "c"]
    assert held(store) == []


def test_a_store_that_cannot_be_written_does_not_hide_why_a_run_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(lease: Lease) -> None:
        raise UserError("The store cannot be written.")

    with Lease(store.engine, ["a"]), monkeypatch.context() as broken:
        broken.setattr(Lease, "_release", release)
        with pytest.raises(UserError, match="run a is being made by process"):
            Lease(store.engine, ["a"]).__enter__()


@pytest.mark.slow
def test_a_dead_owner_on_this_machine_is_taken_over_at_once(store: Store) -> None:
    script = (
        "import os, sys; from pathlib import Path; from ragrounds.evals.store.leases import Lease; "
        "from ragrounds.evals.store.store import Store; "
        "Lease(Store(Path(sys.argv[1]), sys.argv[2] or None).engine, ['a']).__enter__(); os.kill(os.getpid(), 9)"
    )
    place = store.engine.url
    postgres = place.get_backend_name() == "postgresql"
    home = "/nowhere" if postgres else str(Path(place.database or "").parent)
    url = place.render_as_string(hide_password=False).replace("+psycopg", "") if postgres else ""
    dead = run_python([sys.executable, "-c", script, home, url])
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert held(store) == ["a"]
    said: list[str] = []
    with Lease(store.engine, ["a"], said.append):
        assert said == [], "nothing was waited for"
    assert held(store) == []


def test_another_process_of_the_same_number_is_not_the_owner(store: Store) -> None:
    Lease(store.engine, ["a"])._take("a")
    change(store, started="at another time")
    with Lease(store.engine, ["a"]):
        assert held(store) == ["a"]


def test_an_owner_elsewhere_lives_while_it_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "BEAT", 0.1)
    with Lease(store.engine, ["a"]) as lease:
        change(store, machine="elsewhere", host="far")
        said: list[str] = []
        with pytest.raises(UserError, match="on far"):
            Lease(store.engine, ["a"], said.append).__enter__()
        assert "waiting" in said[0]
        assert lease.reached() == ""


@pytest.mark.slow
def test_a_silent_owner_elsewhere_is_taken_over_and_told_when_it_wakes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "SILENCE", 1.0)
    monkeypatch.setattr(time, "time", lambda: 0.0)  # a wall clock that stands still, or jumped: nobody reads it
    monkeypatch.setattr(leasing, "BEAT", 2.5)  # suspended for longer than the silence allowed
    with Lease(store.engine, ["a"]) as asleep:
        change(store, machine="elsewhere", host="far")
        monkeypatch.setattr(leasing, "BEAT", 0.05)
        with Lease(store.engine, ["a"]) as awake:
            end = time.monotonic() + 20
            while not asleep.reached() and time.monotonic() < end:
                time.sleep(0.05)
            assert "continues the run" in asleep.reached()
            assert awake.reached() == ""
    assert held(store) == []
