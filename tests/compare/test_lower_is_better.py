"""A score that counts faults has no frontier: more of it is not worth paying for."""

from __future__ import annotations

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.records import Score
from tests.conftest import Cli


def test_contradiction_has_no_frontier_and_strict_has_one(command: Cli, home: object) -> None:
    assert command("run", "--agent", "direct", "--limit", "6", "--display", "none", "--json").returncode == 0
    with Store(home) as store:  # type: ignore[arg-type]
        run = store.runs()[0]
        found = [
            Score(question_id=id, epoch=0, scorer="contradiction", value=0.5, answer_status="answered")
            for id, _ in store.done(run)
        ]
        store.add_scores(run, found)
        tables = {table.scorer: table for table in compare(store, [run]).tables}
    assert tables["contradiction"].frontier is None
    assert tables["strict"].frontier is not None
