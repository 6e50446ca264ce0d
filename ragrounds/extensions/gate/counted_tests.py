"""Number of a gate's test among those on the same answers, and its share of the error.

Whoever may try policies, subsets or epochs on the same answers until one says GO will find one. So every test is stored
with its runs and counted, and the error is shared out in their order: four fifths to the first, 1 / (5 n (n - 1)) to
test n (alpha spending; the shares add up to 1). Holm's procedure needs the p values of all tests at once and takes back
what it said before, but a GO that was published stays published. The same policy on the same answers is the same test.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ragrounds.base.records import Run
from ragrounds.evals.compare.stopped_runs import all_records
from ragrounds.evals.store.store import Store

_SELECTION = frozenset({"questions", "selection", "epochs", "benchmark", "content", "matching", "timed"})
"""Parts of a run's identity that select answers and do not change them."""


def error_share(number: int) -> float:
    """Return the share of the policy's error that test `number` on the same answers has; all shares add up to 1."""
    return 0.8 if number == 1 else 0.2 / (number * (number - 1))


def number_of_test(store: Store, runs: Sequence[Run], test: str) -> int:
    """Return the number of a test of runs among the stored ones on the same answers; the same test keeps its number.

    Args:
        store: store of the runs and their tests.
        runs: runs of the test.
        test: digest of the policy and its answers.
    """
    stored_runs = store.runs(counterfactuals=True)
    sources = {run.id: _answer_source(run) for run in stored_runs}
    own_sources = {sources[run.id] for run in runs}
    numbers: dict[str, int] = {}
    for run in stored_runs:
        for record in all_records(store, run) if sources[run.id] in own_sources else ():
            tested_sources = {sources[id] for id in record.runs if id in sources}
            if record.test and (tested_sources <= own_sources or own_sources <= tested_sources):
                numbers[record.test] = record.number
    return numbers.get(test) or max(numbers.values(), default=0) + 1


def _answer_source(run: Run) -> str:
    """Return what a run's answers come from: its agent on a benchmark, whatever the questions and epochs."""
    identity = {key: value for key, value in run.identity.items() if key not in _SELECTION}
    content = run.agent, run.benchmark.partition("/")[0], identity
    return msgspec.json.encode(content, order="deterministic").decode()
