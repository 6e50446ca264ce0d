"""Finding what is done among 10,000 attempts: processor time of what a run asks the store before its first question.

python perf/engine_resume.py [--questions N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ragrounds.evals.engine.scheduler import WorkQueue, replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.engine.conftest import planned
from tests.engine.doubles import ScriptedModel, questions


async def fill(store: Store, count: int) -> None:
    items, golds = questions(count)
    journal = StoreJournal(store, "reuse")
    await replay(store, journal, [planned(store, "direct", items, golds)], items, golds, scorers_for, concurrency=64)
    journal.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10_000)
    count = parser.parse_args().questions
    with tempfile.TemporaryDirectory(prefix="ragrounds-resume-") as home:
        with Store(Path(home)) as store:
            asyncio.run(fill(store, count))
        items, golds = questions(count)
        model = ScriptedModel()
        taken = []
        for _ in range(5):
            with Store(Path(home)) as store:
                one = planned(store, "direct", items, golds, model)
                begun = time.process_time()
                left = WorkQueue(store, [one], items, golds, [], lambda finished: None).take()
                taken.append(time.process_time() - begun)
                assert left is None
        assert not model.asked
    milliseconds = [round(seconds * 1000, 1) for seconds in taken]
    print(json.dumps({"questions": count, "processor_ms": milliseconds, "calls": len(model.asked)}))


if __name__ == "__main__":
    main()
