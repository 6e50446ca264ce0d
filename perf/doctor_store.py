"""How long `doctor --store` takes, and how much memory, over stores of several sizes: `python perf/doctor_store.py`.

Each store holds one run whose answers have some 1,400 characters and are scored by `robust`; each is looked through by
a process of its own. Writes perf/doctor_store.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (1_000, 10_000, 100_000)
PAGE = Path(__file__).with_suffix(".md")


def filled(home: Path, count: int) -> None:
    """A store with one run of `count` attempts."""
    from ragrounds.evals.scorers import known_scorer, score_by
    from ragrounds.evals.store.store import Store, now
    from ragrounds.records import Attempt, Gold, Question, Run

    asked = [
        Question(id=f"x/{n:06}", benchmark="x/one", text=f"Question {n}?", kind="choice", options={"A": "a", "B": "b"})
        for n in range(count)
    ]
    golds = {one.id: Gold(question_id=one.id, answer="A") for one in asked}
    run = Run(
        id="run-000000", fingerprint="0" * 64, agent="direct", benchmark="x", questions="0" * 64, count=count,
        created=now(), identity={}, epochs=1,
    )  # fmt: skip
    scorer = known_scorer("robust")
    with Store(home) as store:
        store.add_run(run, asked, golds)
        for first in range(0, count, 5_000):
            attempts = [
                Attempt(
                    run=run.id, question_id=one.id, epoch=0, status="completed", seconds=1.0, at=now(),
                    text=f"{one.id} " + "it is said of it that " * 60 + 'The answer is {"answer_choice": "A"}',
                )
                for one in asked[first : first + 5_000]
            ]  # fmt: skip
            by_id = {one.id: one for one in asked[first : first + 5_000]}
            scores = [score_by(scorer, one, by_id[one.question_id], golds[one.question_id]) for one in attempts]
            store.add_attempts(run, attempts, scores)


def looked_through(home: Path) -> dict[str, float]:
    """Seconds, processor seconds and MB of a process that looks through a store."""
    import ragrounds as rr

    began, busy = time.monotonic(), time.process_time()
    found = rr.doctor(store=True, progress=False, home=home).contents
    assert found is not None
    assert not found.findings, found.findings
    return {
        "seconds": time.monotonic() - began,
        "processor": time.process_time() - busy,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "checked": sum(found.checked.values()),
    }


def main() -> None:
    """Measure, and write the page."""
    if len(sys.argv) > 1:
        print(json.dumps(looked_through(Path(sys.argv[1]))))
        return
    lines = [
        f"# `doctor --store`, {time.strftime('%Y-%m-%d')}",
        "",
        "| attempts | store, MB | rows looked at | processor seconds | memory, MB |",
        "|---|---|---|---|---|",
    ]
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            filled(Path(folder), count)
            size = (Path(folder) / "store.sqlite").stat().st_size / 1e6
            done = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True, check=True)
            got = json.loads(done.stdout)
            lines.append(f"| {count:,} | {size:,.0f} | {got['checked']:,} | {got['processor']:.1f} | {got['MB']:.0f} |")
    lines += ["", "`python perf/doctor_store.py`, one core of a busy machine, Python " + sys.version.split()[0] + "."]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
