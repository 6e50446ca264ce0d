"""The real MIRAGE questions through the wire: run, kill in the middle, go on, and compare with the imported rows.

    python perf/mirage_wire.py --data FOLDER [--questions N] [--concurrency N]

FOLDER holds ``mirage/benchmark.json``, ``mirage/predictions/gpt-35-turbo-16k_{cot,rag_32}.jsonl.gz`` and
``beir/pubmedqa_1k`` (tests/README.md says where they come from). A server process answers with the
recorded GPT-3.5 replies; `ragrounds run` asks it through `direct_cot` and `vanilla_rag`, is killed with SIGKILL half
way, and goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from tests.servers.process import Running, openai_server

SETTINGS = {"direct_cot": "cot", "vanilla_rag": "rag_32"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--questions", type=int, help="only so many questions, and no undisturbed run (default: all 7,663)"
    )
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds that the server takes for an answer")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="ragrounds-wire-"))
    try:
        print(json.dumps(measure(options, home), indent=2))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Run, kill, go on, import, compare; raises AssertionError where a promise is broken."""
    mirage, corpus = options.data / "mirage", options.data / "beir" / "pubmedqa_1k"
    predictions = [mirage / "predictions" / f"gpt-35-turbo-16k_{setting}.jsonl.gz" for setting in SETTINGS.values()]
    environment = {**os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "sk-wire-0123456789abcdef"}
    arguments = ["--benchmark", mirage / "benchmark.json", "--predictions", *predictions]
    arguments += ["--corpus", corpus, "--documents", 32, "--latency", options.latency]
    with openai_server(*map(str, arguments)) as server:
        command = [sys.executable, "-m", "ragrounds", "run", "--benchmark", f"mirage:{mirage / 'benchmark.json'}"]
        command += [f"--agent={agent}[model=openai:recorded-{setting}]" for agent, setting in SETTINGS.items()]
        command += ["--corpus", f"beir:{corpus}", "--base-url", server.url, "--temperature", "0", "--display", "none"]
        command += ["--concurrency", str(options.concurrency)]
        if options.questions:
            command += ["--limit", str(options.questions)]
        killed_at = _killed_half_way(command, environment, server, 2 * (options.questions or 7663))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        _finished(command, environment)
        wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        stats = server.stats()
        undisturbed = 0.0 if options.questions else _cpu([*command, "--new", "--journal", "fresh"], environment)
    importing = [sys.executable, "-m", "ragrounds", "import", "--format", "mirage-predictions"]
    importing += map(str, _predictions_of_runs(home, predictions) if options.questions else predictions)
    _finished([*importing, "--benchmark", f"mirage:{mirage / 'benchmark.json'}", "--json"], environment)
    report = _checked(home, stats, options)
    if undisturbed:
        report["processor seconds per 1,000 attempts, undisturbed"] = round(1000 * undisturbed / (2 * 7663), 2)
    return report | {
        "killed after answers": killed_at,
        "seconds of the second part": round(wall, 1),
        "processor seconds of the second part": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1
        ),
    }


def _predictions_of_runs(home: Path, predictions: list[Path]) -> list[Path]:
    """Write the recorded replies to the runs' questions into files of their own, and return these."""
    with Store(home) as store:
        question_ids = {question.id for question in store.questions(store.runs()[0])[0]}
    files = []
    for path in predictions:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            chosen = [line for line in lines if "{dataset}/{id}".format(**json.loads(line)) in question_ids]
        assert len(chosen) == len(question_ids)
        files.append(home / path.stem)
        files[-1].write_text("".join(chosen), encoding="utf-8")
    return files


def _killed_half_way(command: list[str], environment: dict[str, str], server: Running, total: int) -> int:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while (answered := server.stats()["answered"]) < total // 2:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return int(answered)


def _finished(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    # 3: done, with failed attempts; the recorded run has some responses without choices.
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def _cpu(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _finished(command, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _checked(home: Path, stats: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    assert not stats["violations"], stats["violations"][:3]
    assert len(stats["answered_twice"]) <= options.concurrency, "more was asked again than was in flight at the kill"
    with Store(home) as store:
        runs = store.runs()
        replayed = {run.agent.partition("[")[0]: run for run in runs[:2]}
        imported = {setting: run for run in runs if run.origin == "imported" for setting in SETTINGS.values()
                    if run.identity["agent"].endswith(f" {setting}")}  # fmt: skip
        report: dict[str, Any] = {
            agent: _against(store, replayed[agent], imported[setting]) for agent, setting in SETTINGS.items()
        }
        searched = _searches(store, replayed["vanilla_rag"], stats, options.concurrency)
    return report | {
        "answered twice by the server (in flight at the kill)": len(stats["answered_twice"]),
        "searches checked (query equals the question's text; prompt holds what was found)": searched,
    }


def _against(store: Store, run: Run, imported: Run) -> dict[str, Any]:
    """The run's figures beside the imported ones, and how many questions differ."""
    questions, _ = store.questions(run)
    copies = {question.id for question in questions if question.cluster and question.cluster != question.id}
    statuses = store.summaries(run)
    assert len(statuses) == len(questions)
    failed = Counter(attempt.reason for attempt in statuses if attempt.status == "failed")
    result: dict[str, Any] = {"statuses": Counter(attempt.status for attempt in statuses), "failed": failed}
    for scorer in ("mirage", "strict"):
        ours = {score.question_id: score for score in store.scores(run, scorer)}
        theirs = {score.question_id: score for score in store.scores(imported, scorer)}
        differing = [id for id in ours if (ours[id].value, ours[id].prediction, ours[id].answer_status)
                     != (theirs[id].value, theirs[id].prediction, theirs[id].answer_status)]  # fmt: skip
        strange = [id for id in differing if id not in copies]
        assert not strange, f"{run.id} differs from the recorded replies on {strange[:5]}"
        table = {}
        for name in dict.fromkeys(question.benchmark for question in questions):
            ids = [question.id for question in questions if question.benchmark == name]
            table[name] = [round(100 * sum(side[id].value or 0 for id in ids) / len(ids), 2) for side in (ours, theirs)]
        result[scorer] = {
            "through the wire, imported": table,
            "questions that differ (all of them copies of an earlier question)": len(differing),
        }
    result["copies of an earlier question"] = len(copies)
    return result


def _searches(store: Store, run: Run, stats: dict[str, Any], concurrency: int) -> int:
    """Every query is the question's text and nothing else, and the prompts hold the passages that were found."""
    texts = {question.id: question.text for question in store.questions(run)[0]}
    seen, found = 0, 0
    prompts: dict[str, int] = {}
    for attempt in store.attempts(run):
        for call in calls(attempt.events):
            if call.kind == "search":
                recorded = store.call(call.key, SearchRequest, dict)
                assert recorded is not None
                assert recorded[0].query == texts[attempt.question_id], f"{attempt.question_id}: {recorded[0].query!r}"
                seen += 1
                found = len(call.passages)
            elif not call.error:
                prompts[call.key] = found
    # What the server counted in the prompts is what the searches returned, each prompt once but those that were in
    # flight at the kill, whose first answer was cut off or lost.
    again, held = stats["checked"]["rag_32"] - len(prompts), stats["documents"]["rag_32"]
    assert 0 <= again <= concurrency, f"{again} prompts were sent twice"
    assert sum(prompts.values()) <= held <= sum(prompts.values()) + 32 * again, (held, sum(prompts.values()), again)
    return seen


if __name__ == "__main__":
    main()
