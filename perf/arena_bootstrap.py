"""100,000 stored matches: reading them, Bradley–Terry with 1,000 bootstraps by question.

    python perf/arena_bootstrap.py [questions]

Processor time, one core. The store is made first, in a folder that is removed again.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, Axis, Contestant, JudgementDetail
from ragrounds.evals.store.database import insert_new
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.writer import group
from ragrounds.extensions.arena.ratings import rate
from ragrounds.extensions.arena.schedules import all_pairs
from ragrounds.extensions.arena.verdicts import combine_judgements, matches_of

MATCHES, SYSTEMS = 100_000, 12


def stored(store: Store, keeper: ArenaStore, arena: Arena, questions: int) -> int:
    """Write the judgements of both orders of every match."""
    draw = np.random.default_rng(0)
    strengths = draw.normal(0, 0.6, SYSTEMS)
    first, second = all_pairs(SYSTEMS)
    pairs = len(first)
    number = keeper.add(arena)
    taken = draw.permutation(pairs * questions)[:MATCHES]
    rows = []
    for place, cell in enumerate(taken.tolist()):
        one, other = int(first[cell % pairs]), int(second[cell % pairs])
        for a, b in ((one, other), (other, one)):
            won = draw.random() < 1 / (1 + np.exp(strengths[b] - strengths[a] - 0.3))
            letter = "=" if draw.random() < 0.2 else "1" if won else "2"
            judged = ArenaJudgement(
                judge=0,
                question_id=f"q{cell // pairs}",
                first=a,
                second=b,
                part=0,
                number=place,
                outcomes=letter,
                calls=1,
            )
            rows.append((judged, JudgementDetail({}, ())))
    written = group((row for one, detail in rows for row in keeper.rows(number, one, detail)), {})
    with store.engine.begin() as connection:
        for table, keyed in written.values():
            connection.execute(insert_new(store.engine, table), list(keyed.values()))
    return number


def main(questions: int) -> None:
    arena = Arena(
        systems=tuple(Contestant(name=f"system {n}") for n in range(SYSTEMS)),
        benchmark="made up",
        questions="0",
        count=questions,
        axes=(Axis("usefulness", "u"),),
        judges=("judge",),
        prompts={},
    )
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        keeper = ArenaStore(store)
        number = stored(store, keeper, arena, questions)
        start = time.process_time()
        matches = matches_of(arena, combine_judgements(arena, keeper.judgements(number)), 0)
        read = time.process_time()
        rated = rate(matches, replicates=1000)
        fitted = time.process_time()
    print(f"{len(matches):,} matches of {SYSTEMS} systems on {matches.clusters:,} questions, both orders stored")
    print(f"reading and combining   {read - start:5.2f} s")
    print(f"ratings, 1,000 resamples {fitted - read:4.2f} s")
    print(f"together                {fitted - start:5.2f} s of CPU (bar: 10 s); best {rated.rows[0].system}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
