"""What each command costs on a store of a million attempts, beside 10,000: processor seconds, wall seconds, memory.

    python perf/scale.py [--sizes 10000 100000 1000000] [--home FOLDER] [--only WORD …]

Of a store four fifths are ten runs on the same questions: two that `ragrounds run` began, so that its command can be
given again, and eight like them. Each attempt has a model call (a prompt of 2 kB) and, but for the first run's, a
search; seven runs have at each question the attempt of one of the first three, calls and all. The rest are 26 imported
runs without calls, 23 of them made in the same way. Rows are written by the store's own codec and read by the
scorers, so that check sums and scores are right; nothing is asked of a model. Every command is one process; *silent*
is how long it shows nothing on a terminal. Prints the page; FOLDER keeps the stores (5 GB).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from made_texts import MadeTexts
from msgspec import structs

from ragrounds.base.contracts import Entry, Request, SearchRequest, SearchResult
from ragrounds.base.records import Attempt, Call, Called, Entered, Left, Message, Reply, Usage
from ragrounds.evals.scorers import score_by, scorers_for
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.journal import attempt_payer, call_rows
from ragrounds.evals.store.schema import Row

ROOT = Path(__file__).resolve().parents[1]
BIG, SMALL, OWN, PASSAGES, BATCH = 10, 26, 3, 20_000, 2_000
"""Runs with calls, imported ones, those of each kind whose attempts are their own; passages; rows written at once."""
AGENTS = ("direct", *(f"vanilla_rag[top_k={k}]" for k in range(1, BIG)))
"""Agents of the runs with calls. The sample's corpus is named where they are begun; no search is made."""


def commands(home: Path) -> dict[str, list[str]]:
    """What is measured, in this order: words that say it, and the command."""
    from ragrounds.evals.store.store import Store

    with Store(home) as store:
        runs = store.runs()
        big = [run.id for run in runs if run.origin == "replayed"]
        every = [run.id for run in runs]
        question = store.questions(runs[1])[0][-1].id
    report, lines, file = (str(home / name) for name in ("report.html", "all.jsonl", "store.ragrounds"))
    listed = ["trace", *big, "--format", "text", "--limit", "20"]
    return {
        "the finished run again (2 of the big runs)": asked(home),
        "`runs ls`": ["runs", "ls"],
        "`show` of one answer": ["show", big[1], question],
        "`trace`: list": listed,
        "… filtered: `wrong and searches>0`": [*listed, "--where", "wrong and searches>0"],
        "… `--sort tokens`": [*listed, "--sort", "tokens"],
        "… of one run, by its steps (`hops>0 and gold not seen`), first": [*listed[:1], big[1], *listed[-4:],
                                                                            "--where", "hops>0 and gold not seen"],
        "… by its steps, again": [*listed[:1], big[1], *listed[-4:], "--where", "hops>0 and gold not seen"],
        "… of one run, by a text": [*listed[:1], big[1], *listed[-4:], "--where", '"zebrafish"'],
        "… of all ten, by a text": [*listed, "--where", '"zebrafish"'],
        "viewer, first frame": ["viewer"],
        "`compare`, 2 runs": ["compare", *big[:2]],
        "`compare`, 10 runs, `--baseline`": ["compare", *big, "--baseline", big[0]],
        "`ledger`": ["ledger"],
        "`report`, 2 runs": ["report", *big[:2], "--out", report, "--force"],
        "`analyse success`, 2 runs": ["analyse", "success", *big[1:3]],
        "`score --scorer strict`, one run": ["score", big[2], "--scorer", "strict"],
        "`export jsonl`, all": ["export", "jsonl", *every, "--out", lines, "--force"],
        "`export store`, all": ["export", "store", *every, "--out", file],
        "`import`, all": ["import", file],
        "`import` again": ["import", file],
        "`doctor --store`": ["doctor", "--store"],
        "`runs rm`, one run": ["runs", "rm", big[-1]],
        "`runs gc`, its calls": ["runs", "gc", "--older-than", "0", "--yes"],
        "`run --limit 10` of so many lines": ["run", "-b", f"jsonl:{home / 'lines.jsonl'}", "--limit", "10",
                                               "--agent", "direct", "--model", "baseline:extractive"],
    }  # fmt: skip


def asked(home: Path) -> list[str]:
    """The command of the two runs that are given again."""
    return ["run", "-b", f"jsonl:{home / 'big.jsonl'}", "--corpus", "sample", "--model", "baseline:extractive",
            *itertools.chain(*(["--agent", agent] for agent in AGENTS[:2]))]  # fmt: skip


# --- the store ---------------------------------------------------------------------------------------------------


def fill(home: Path, count: int) -> None:
    """A store of `count` attempts, and the benchmarks' files."""
    from ragrounds.evals.benchmarks import load
    from ragrounds.evals.store.store import Store

    texts = MadeTexts(7)
    home.mkdir(parents=True)
    for name, lines in (("big", count * 8 // 10 // BIG), ("small", count * 2 // 10 // SMALL), ("lines", count)):
        with (home / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(lines):
                file.write(json.dumps(line(number, texts)) + "\n")
    # The first attempts are the engine's; what they use ends the command.
    run_command(home, [*asked(home), "--max-total-tokens", "1", "--concurrency", "1"], good=(0, 3, 4, 1))
    with Store(home) as store:
        begun = store.runs()[:2]
        assert [run.agent for run in begun] == list(AGENTS[:2]), begun
        questions, golds = store.questions(begun[0])
        passages = [texts.passage(number) for number in range(PASSAGES)]
        own = []
        for number, agent in enumerate(AGENTS):
            run = begun[number] if number < 2 else copy_of(begun[1], agent)
            if number >= 2:
                store.add_run(run, questions, golds)
            if number < OWN:
                write(store, big_rows(store, run, questions, golds, texts, passages, number))
                own.append(run)
            else:
                mix(store, run, own)
        small, own = load(f"jsonl:{home / 'small.jsonl'}", home), []
        for number in range(SMALL):
            other = {"benchmark": small.name, "questions": small.version, "count": len(small), "origin": "imported"}
            run = copy_of(begun[1], f"imported[model={number}]", **other)
            store.add_run(run, small.questions, small.golds)
            if number < OWN:
                write(store, small_rows(store, run, small.questions, small.golds, texts))
                own.append(run)
            else:
                mix(store, run, own)


def mix(store: Any, run: Any, own: Sequence[Any]) -> None:
    """Give a run, at each question, the attempt and the scores of one of some others."""
    number, from_ = store.number(run), [store.number(one) for one in own]
    with store.engine.begin() as connection:
        for table in ("attempts", "scores"):
            columns = ", ".join(name for column in schema.metadata.tables[table].c if (name := column.name) != "run")
            for place, other in enumerate(from_):
                lot = f"(substr(question_id, -7) * {2 * number + 1} / 5) % {len(from_)} = {place}"
                connection.exec_driver_sql(
                    f"INSERT OR IGNORE INTO {table} (run, {columns}) SELECT {number}, {columns} FROM {table} "
                    f"WHERE run = {other} AND {lot}"
                )


def line(number: int, texts: MadeTexts) -> dict[str, object]:
    """A question with four options."""
    return {"id": f"{number:07}", "question": texts.words(50), "options": {letter: texts.words(4) for letter in "ABCD"},
            "answer": "ABCD"[number % 4], "group": f"subject {number % 12}"}  # fmt: skip


def copy_of(run: Any, agent: str, **other: object) -> Any:
    """A run like another, of another agent."""
    digest = hashlib.sha256(agent.encode()).hexdigest()
    id = f"{agent.partition('[')[0]}-{digest[:6]}"
    return structs.replace(run, id=id, agent=agent, fingerprint=digest, **other)


def write(store: Any, rows: Iterator[Row]) -> None:
    """Write rows by the store's own statements, some thousand at a time."""
    while part := list(itertools.islice(rows, 8 * BATCH)):
        store._write(part)


def big_rows(
    store: Any, run: Any, asked: Any, golds: Any, texts: MadeTexts, passages: Any, place: int
) -> Iterator[Row]:
    """Attempts with a model call of their own, and a search but for the first run's."""
    number, draw = store.number(run), texts.random
    model, searcher, corpus = "baseline:extractive", "bm25[analyser=lucene-english,b=0.4,k1=0.9]", "sample@made"
    system = Message("system", "You answer multiple-choice questions about medicine. " * 6)
    for position, question in enumerate(asked):
        calls, lines, at = [], [], 1e9 + position
        if place:
            found = tuple(passages[int(draw.random() ** 2 * PASSAGES)] for _ in range(2))
            request = SearchRequest(corpus=corpus, query=question.text, k=place)
            key = hashlib.sha256(f"search {place} {question.id}".encode()).hexdigest()
            yield from recorded(key, "search", searcher, at, request, SearchResult(found), run, question.id)
            call = Call(key=key, kind="search", role="searching", node="retrieve", actor=searcher, at=at, seconds=0.01,
                        cost_uncached=0.0, passages=tuple(one.id for one in found))  # fmt: skip
            calls.append(("retrieve", call))
            lines = [one.text for one in found]
        choice = golds[question.id].answer if draw.random() < 0.5 + 0.02 * place else "A"
        thought = texts.words(60) + (" zebrafish" if position % 1000 == 77 else "")
        said = json.dumps({"step_by_step_thinking": thought, "answer_choice": choice})
        options = [f"{letter}. {text}" for letter, text in question.options.items()]
        request = Request(messages=(system, Message("user", "\n".join([*lines, question.text, *options]))))
        usage = Usage(300 + 10 * place, draw.randrange(60, 200))
        reply = Reply(text=said, usage=usage, model=model)
        key = hashlib.sha256(f"model {place} {question.id}".encode()).hexdigest()
        yield from recorded(key, "model", model, at, request, reply, run, question.id)
        calls.append(("answer", Call(key=key, kind="model", role="answering", node="answer", actor=model, model=model,
                      at=at, seconds=0.5, usage=usage, cost_uncached=0.001)))  # fmt: skip
        events: list[Any] = []
        for step, (node, call) in enumerate(calls):
            events += [Entered(step=step, node=node, at=at), Called(step=step, call=call), Left(step=step, seconds=0.5)]
        failed = draw.random() < 0.005
        attempt = Attempt(
            run=run.id, question_id=question.id, epoch=0, status="failed" if failed else "completed",
            text="" if failed else said, reason="timeout: no reply within 60 s" if failed else "", usage=usage,
            cost_paid=0.001, cost_uncached=0.001, seconds=0.5, at=at, model_calls=1,
            searches=len(calls) - 1, events=tuple(events),
        )  # fmt: skip
        yield from scored(attempt, question, golds[question.id], number)


def small_rows(store: Any, run: Any, asked: Any, golds: Any, texts: MadeTexts) -> Iterator[Row]:
    """Attempts as an import makes them: a text, no call."""
    number, draw = store.number(run), texts.random
    for question in asked:
        choice = golds[question.id].answer if draw.random() < 0.6 else "B"
        said = json.dumps({"step_by_step_thinking": texts.words(100), "answer_choice": choice})
        call = Call(key="", kind="model", role="answering", node="imported", actor=run.agent, at=0.0, seconds=0.0)
        events = (Entered(step=0, node="imported", at=0.0), Called(step=0, call=call),
                  Left(step=0, seconds=0.0, changes={"answer": said}))  # fmt: skip
        attempt = Attempt(run=run.id, question_id=question.id, epoch=0, status="completed", text=said, model_calls=1,
                          events=events)  # fmt: skip
        yield from scored(attempt, question, golds[question.id], number)


def recorded(key: str, kind: Any, actor: str, at: float, asked: Any, gave: Any, run: Any, id: str) -> Iterator[Row]:
    """A call of the journal."""
    yield from call_rows(
        Entry(key=key, kind=kind, actor=actor, request=asked), gave, at, 0.1, attempt_payer(run, id, 0)
    )


def scored(attempt: Any, question: Any, gold: Any, number: int) -> Iterator[Row]:
    """An attempt, and what the scorers make of it."""
    yield from attempt_rows(attempt, number)
    yield from score_rows([score_by(one, attempt, question, gold) for one in scorers_for(question)], number)


# --- measuring ---------------------------------------------------------------------------------------------------

_RUN = """
import json, os, resource, sys
from pathlib import Path
end = 0
try:
    if sys.argv[1] == "viewer":
        sys.path.insert(0, "perf")
        from trace_scale import opening
        opening(Path(os.environ["RAGROUNDS_HOME"]))
    else:
        from ragrounds.cli import main
        main()
except SystemExit as error:
    end = error.code or 0
used = resource.getrusage(resource.RUSAGE_SELF)
inside = resource.getrusage(resource.RUSAGE_CHILDREN)
# Not ru_maxrss: that counts what the process was forked from, too.
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024
figures = {"processor": used.ru_utime + used.ru_stime + inside.ru_utime + inside.ru_stime, "MB": peak, "end": end}
Path(os.environ["SCALE_FIGURES"]).write_text(json.dumps(figures))
"""


def run_command(
    home: Path, words: list[str], good: Sequence[int] = (0,), store: Path | None = None
) -> dict[str, float]:
    """A command in a process of its own, whose standard error is a terminal."""
    figures, (mine, theirs) = home / "figures.json", pty.openpty()
    environment = {**os.environ, "RAGROUNDS_HOME": str(store or home), "PYTHONPATH": str(ROOT),
                   "SCALE_FIGURES": str(figures), "COLUMNS": "120"}  # fmt: skip
    began = last = time.monotonic()
    silent, said = 0.0, b""
    with (home / "output.txt").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", _RUN, *words], env=environment, cwd=ROOT, stdout=output,
                                   stderr=theirs, stdin=subprocess.DEVNULL)  # fmt: skip
        os.close(theirs)
        while True:
            if select.select([mine], [], [], 0.2)[0]:
                try:
                    said = (said + os.read(mine, 65536))[-4000:]
                except OSError:  # the terminal is closed
                    break
                silent, last = max(silent, time.monotonic() - last), time.monotonic()
        process.wait()
    os.close(mine)
    found = json.loads(figures.read_text())
    if found.pop("end") not in good:
        raise SystemExit(f"{' '.join(words)}: {said.decode(errors='replace')}")
    return {**found, "seconds": time.monotonic() - began, "silent": max(silent, time.monotonic() - last)}


def measure(home: Path, only: Sequence[str]) -> dict[str, dict[str, float]]:
    """Every command on a store."""
    found = {}
    for name, words in commands(home).items():
        if only and not any(word in name for word in only):
            continue
        other = home / "other" if words[0] == "import" else None
        found[name] = run_command(home, words, store=other)
        print(f"{home.name} {name}: {found[name]}", file=sys.stderr, flush=True)
    shutil.rmtree(home / "other", ignore_errors=True)
    return found


def page(found: dict[int, dict[str, dict[str, float]]], sizes: dict[int, float]) -> Iterator[str]:
    """The table."""
    counts = sorted(found)
    yield f"# {counts[-1]:,} attempts\n"
    load, cores = os.getloadavg()[2], os.cpu_count()
    yield f"`python perf/scale.py`, {datetime.now(UTC):%Y-%m-%d}, load {load:.1f} on {cores} cores."
    yield "Processor seconds, wall seconds, MB; *slope*: processor seconds per 100,000 further attempts.\n"
    heads = [f"{count:,} ({sizes[count]:,.0f} MB)" for count in counts]
    yield "| | " + " | ".join(heads) + " | slope | longest silence, s |"
    yield "|---" * (len(counts) + 3) + "|"
    for name in found[counts[-1]]:
        each = [found[count].get(name) for count in counts]
        cells = [f"{one['processor']:.1f}, {one['seconds']:.1f}, {one['MB']:.0f}" if one else "" for one in each]
        slope = ""
        if len(counts) > 1 and each[0] and each[-1]:
            slope = f"{(each[-1]['processor'] - each[0]['processor']) / (counts[-1] - counts[0]) * 1e5:.2f}"
        yield f"| {name} | {' | '.join(cells)} | {slope} | {each[-1]['silent'] if each[-1] else 0:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--home", type=Path, help="keep the stores in this folder, and use those that are there")
    parser.add_argument("--only", nargs="+", default=[], help="commands whose words have one of these")
    options = parser.parse_args()
    found, sizes = {}, {}
    with tempfile.TemporaryDirectory(prefix="ragrounds-scale-") as folder:
        for count in options.sizes:
            home = (options.home or Path(folder)) / str(count)
            if not (home / "made").exists():
                began = time.process_time()
                fill(home, count)
                (home / "made").touch()
                print(f"made {count:,} attempts: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
            sizes[count] = (home / "store.sqlite").stat().st_size / 1e6
            found[count] = measure(home, options.only)
    print("\n".join(page(found, sizes)))


if __name__ == "__main__":
    main()
