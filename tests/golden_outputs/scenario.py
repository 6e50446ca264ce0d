"""What some fifty commands and calls give on the sample: once as data, once as words.

Values that differ from run to run or from machine to machine (times, digests of code, ids, ports, folders) are masked,
and parts of a document over `_WHOLE` characters are held as digests.

    python -m tests.golden_outputs.scenario --write words     # new words, on purpose
    python -m tests.golden_outputs.scenario --write data run  # new data of `run` alone; its commit says why
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import gzip
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ragrounds.extensions.stand_in.server import stand_in_server

HERE = Path(__file__).parent
WORDS = HERE / "words"
DATA = HERE / "data"

_WHOLE = 8_000
"""Characters of an output's JSON from which its parts are digests."""
_VOLATILE = re.compile(
    r"(^|_)(at|seconds|second|time|started|ended|created|built|updated|code|codes|digest|fingerprint|folder|path|store|"
    r"python|home|version|made|first_token|busy|size|bytes|latency|p50|p95|paused|waited|disk|memory|extras|packages)$|"
    r"_code$|^t[0-9]?$|^engines$|^timeline$|^age$|^server(s)?$|^host$|^installed$"
)
"""Keys whose values are masked: they hold times, places, or digests of code."""
_ID = re.compile(r"\b(?!sample)[a-z][a-z0-9_.-]*-[0-9a-f]{6}\b")
_HEX = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b")
_BAR = re.compile("[▏▎▍▌▋▊▉█]+")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_TIME = re.compile(
    r"(?:<|\b)\d+(?:[.,]\d+)*\s?(?:ms|s|min|h|d|seconds?|minutes?)\b|\b\d\d:\d\d(:\d\d)?\b|"
    r"\b\d{4}-\d\d-\d\d\b|\bnow\b|\b\d+(?:[.,]\d+)? ?(?:kB|MB|bytes)\b"
)


class Scenario:
    """A home with some runs, and what is asked of it, in this process."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.served = ("openai:any", "--base-url", url, "--alias", "stand")
        self.questions: list[str] = []
        self.talk = ""

    def say(self, *arguments: str, code: int = 0) -> str:
        """What a command prints on stdout, and what on stderr is not progress; it must end with this code."""
        from ragrounds.cli import main

        out, talk, ended = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8"), 0
        held = sys.argv, sys.stdout, sys.stderr
        sys.argv, sys.stdout, sys.stderr = ["ragrounds", *arguments], out, talk
        try:
            main(own_process=False)
        except SystemExit as end:
            ended = int(end.code or 0)
        finally:
            sys.argv, sys.stdout, sys.stderr = held
        texts = []
        for stream in (out, talk):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
        assert ended == code, f"{arguments}: exit code {ended}\n{texts[1]}"
        self.talk = texts[1]
        return texts[0]

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The document that a command prints with ``--json``."""
        return json.loads(self.say(*arguments, code=code))

    def runs(self) -> dict[str, str]:
        """Id of every run → how it is called here."""
        import ragrounds as rr

        return {run.id: f"<{run.agent}>" for run in rr.runs()}

    def file(self, *arguments: str, name: str) -> str:
        """The text of the file that a command writes."""
        self.say(*arguments, "--out", name)
        return (self.folder / name).read_text(encoding="utf-8")


PACKAGES = {
    **dict.fromkeys(("chromadb", "faiss", "httpx", "llama_index"), True),
    **dict.fromkeys(("lancedb", "psycopg_pool", "qdrant_client", "sentence_transformers"), False),
}
"""Optional packages that the outputs name: True if they count as installed."""
BASELINE = ("direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")
SERVED = ("direct_cot", "search_o1", "cot_refine", "i_medrag", "tool_agent")


def _served(s: Scenario) -> list[str]:
    agents = [word for agent in SERVED for word in ("--agent", agent)]
    return ["run", *agents, "--limit", "8", "--display", "none", "--model", *s.served]


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _sorted_lines(text: str) -> list[Any]:
    return sorted(_lines(text), key=lambda row: json.dumps([row.get("kind"), row.get("actor"), row.get("key")]))


def _frames(s: Scenario) -> dict[str, Any]:
    import ragrounds as rr

    made: dict[str, Any] = {}
    for result in (rr.compare(list(BASELINE)), rr.load(SERVED[1])):
        for name in result.frames:
            frame = result.to_pandas(name)
            kept = [column for column in frame.columns if not _VOLATILE.search(column)]
            made[f"{type(result).__name__}.{name}"] = {
                "columns": list(frame.columns),
                "types": [str(one) for one in frame.dtypes],
                "rows": json.loads(frame[kept].to_json(orient="values", double_precision=9)),
            }
    return made


def _payload(s: Scenario) -> dict[str, Any]:
    page = s.file("report", *BASELINE, "--force", name="report.html")
    blocks = re.findall(r'<script type="text/plain" id="([\w-]+)">([^<]+)</script>', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in blocks if name != "about"}


def _journal(s: Scenario) -> Any:
    """The keys of model calls. Those of the built-in baseline and of searches hold digests of code, as they should."""
    s.say("journal", "write", *BASELINE, *SERVED, "--out", "journal.jsonl")
    rows = _sorted_lines((s.folder / "journal.jsonl").read_text())
    return [
        [row.get("kind"), row.get("actor"), row.get("key") if str(row.get("actor")).startswith("openai:") else ""]
        for row in rows
    ]


def _replayed(s: Scenario) -> Any:
    """A second run of the same, from the journal alone; it goes again, so that names stay clear."""
    told = s.json(
        "run", "--agent", "direct", "--limit", "24", "--journal", "replay", "--new", "--display", "none", "--json"
    )
    s.say("runs", "rm", told["rows"][0]["run"])
    return told


def _table(text: str) -> Any:
    """The rows of a CSV table but those of times."""
    return [row for row in csv.DictReader(io.StringIO(text)) if not any("seconds" in value for value in row.values())]


def _trec(s: Scenario) -> Any:
    s.say("export", "trec", "vanilla_rag[top_k=8]", "--out", "trec")
    return {
        path.name: path.read_text().splitlines() for path in sorted((s.folder / "trec").rglob("*")) if path.is_file()
    }


def _spans(s: Scenario) -> Any:
    """Names and keys of the spans: their ids and times are drawn."""
    text = s.file("export", "otel", "search_o1", name="spans.json")
    found: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "spanId" in value:
                kept = {one["key"]: next(iter(one["value"].values())) for one in value.get("attributes", [])}
                kept |= {"metadata": json.loads(kept["metadata"])} if "metadata" in kept else {}  # it holds times
                found.append([value["name"], kept])
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    for line in text.splitlines():
        walk(json.loads(line))
    return sorted(found, key=json.dumps)


DATA_OUTPUTS: dict[str, Callable[[Scenario], Any]] = {
    "run": lambda s: s.json("run", "--limit", "24", "--display", "none", "--json"),
    "run_served": lambda s: s.json(*_served(s), "--json"),
    "run_again": lambda s: s.json("run", "--limit", "24", "--display", "none", "--json"),
    "run_replayed": _replayed,
    "runs_ls": lambda s: sorted((one["run"] for one in s.json("runs", "ls", "--json")["runs"]), key=json.dumps),
    "runs_show": lambda s: s.json("runs", "show", "vanilla_rag[top_k=8]", "--json"),
    "runs_show_served": lambda s: s.json("runs", "show", "search_o1", "--json"),
    "compare": lambda s: s.json("compare", *BASELINE, "--json"),
    "compare_served": lambda s: s.json("compare", *SERVED, "--baseline", "direct_cot", "--json"),
    "compare_grouped": lambda s: s.json("compare", *BASELINE, "--group-by", "subject", "--scorer", "strict", "--json"),
    "compare_claim": lambda s: s.json("compare", *BASELINE, "--assert",
                                      "accuracy(vanilla_rag[top_k=8]) > 0.3 @ 90%", "--assert",
                                      "failed(direct) <= 0", "--json"),
    "compare_csv": lambda s: _table(s.say("compare", *BASELINE, "--csv")),
    "show": lambda s: s.json("show", "vanilla_rag[top_k=8]", s.questions[0], "--json"),
    "show_served": lambda s: s.json("show", "search_o1", s.questions[1], "--json"),
    "trace": lambda s: s.json("trace", *BASELINE, "--format", "json"),
    "trace_filtered": lambda s: s.json("trace", *BASELINE, "--where", "wrong and (hops >= 1 or not gold seen)",
                                       "--sort", "hops", "--hops", "--format", "json"),
    "trace_text": lambda s: s.json("trace", *BASELINE, "--where", "adrenaline or question:infarct*",
                                   "--format", "json"),
    "ledger": lambda s: s.json("ledger", "--by", "run,role,node,model", "--json"),
    "score": lambda s: s.json("score", "direct", "--scorer", "mirage", "--json"),
    "judge": lambda s: s.json("judge", *BASELINE, "--kind", "equivalence", "--judge", *s.served,
                              "--json"),
    "arena_plan": lambda s: s.json("arena", "play", *BASELINE, "--judge", *s.served, "--plan",
                                   "--json"),
    "analyse_hops": lambda s: s.json("analyse", "hops", "search_o1", "--json"),
    "analyse_passages": lambda s: s.json("analyse", "passages", *BASELINE[1:], "--json"),
    "analyse_success": lambda s: s.json("analyse", "success", "vanilla_rag[top_k=8]", "--json"),
    "analyse_quality": lambda s: s.json("analyse", "quality", *BASELINE[1:], "--json"),
    "analyse_readings": lambda s: s.json("analyse", "readings", *BASELINE, "--scorer", "mirage", "--json"),
    "analyse_flips": lambda s: s.json("analyse", "flips", "cot_refine", "--json"),
    "agents": lambda s: s.json("list", "agents", "--json"),
    "agent": lambda s: s.json("list", "agents", "search_o1", "--json"),
    "scorers": lambda s: s.json("list", "scorers", "--json"),
    "analyses": lambda s: s.json("list", "analyses", "--json"),
    "retrievers": lambda s: s.json("list", "retrievers", "--json"),
    "benchmarks": lambda s: s.json("data", "ls", "--json"),
    "benchmark": lambda s: s.json("data", "show", "sample", "--json"),
    "studies": lambda s: s.json("study", "ls", "--json"),
    "index": lambda s: s.json("index", "ls", "--json"),
    "export_jsonl": lambda s: _lines(s.file("export", "jsonl", "vanilla_rag[top_k=8]", name="attempts.jsonl")),
    "export_trec": _trec,
    "export_spans": _spans,
    "report_payload": _payload,
    "frames": _frames,
    "journal_keys": _journal,
}  # fmt: skip
"""Name → what gives the data. The first two make the runs; all stand in the order in which they are made."""

WORD_OUTPUTS: dict[str, Callable[[Scenario], str]] = {
    "help": lambda s: s.say("--help"),
    "run_help": lambda s: s.say("run", "--help"),
    "compare_help": lambda s: s.say("compare", "--help"),
    "run": lambda s: s.say("run", "--limit", "24", "--display", "none") + s.talk,
    "run_served": lambda s: s.say(*_served(s)) + s.talk,
    "runs_ls": lambda s: "\n".join(sorted(s.say("runs", "ls").splitlines())),
    "runs_show": lambda s: s.say("runs", "show", "direct"),
    "compare": lambda s: s.say("compare", *BASELINE) + s.talk,
    "compare_full": lambda s: s.say("compare", *BASELINE, "--full"),
    "compare_markdown": lambda s: s.say("compare", *BASELINE, "--markdown"),
    "compare_latex": lambda s: s.say("compare", *BASELINE, "--latex"),
    "show": lambda s: s.say("show", "vanilla_rag[top_k=8]", s.questions[0]),
    "show_served": lambda s: s.say("show", "search_o1", s.questions[1]),
    "trace_list": lambda s: s.say("trace", *BASELINE, "--hops", "--sort", "hops", "--format", "text"),
    "ledger": lambda s: s.say("ledger"),
    "analyse": lambda s: s.say("analyse", "hops", "search_o1"),
    "agents": lambda s: s.say("list", "agents"),
    "agent": lambda s: s.say("list", "agents", "search_o1"),
    "scorers": lambda s: s.say("list", "scorers"),
    "retrievers": lambda s: s.say("list", "retrievers"),
    "wrong_agent": lambda s: s.say("run", "--agent", "vanila_rag", code=2) + s.talk,
    "wrong_filter": lambda s: s.say("trace", "--where", "wrng", "--format", "text") + s.talk,
    "wrong_claim": lambda s: s.say("compare", *BASELINE, "--assert", "accurcy(direct) > 0", code=2) + s.talk,
    "wrong_option": lambda s: s.say("run", "--limt", "3", code=2) + s.talk,
}  # fmt: skip
"""Name → what gives the words."""


@cache
def _masked_paths(folder: Path) -> dict[str, str]:
    """Return the paths that are masked, in their order, and their masks: tens of thousands of texts ask for them."""
    return {str(folder.resolve()): "<folder>", str(folder): "<folder>", str(HERE.resolve().parents[1]): "<root>"}


def masked_text(text: str, folder: Path, runs: dict[str, str]) -> str:
    """A text without what differs from run to run; blanks are one, since masks have other widths."""
    text = re.sub(r"(Usage: |Try ')(python -m )?\S+", r"\1ragrounds", text)
    for path, mask in _masked_paths(folder).items():
        text = text.replace(path, mask)
    for run, name in runs.items():
        text = text.replace(run, name)
    for pattern, mask in ((_PORT, "<server>"), (_ID, "<run>"), (_HEX, "<hex>"), (_TIME, "<time>"), (_BAR, "")):
        text = pattern.sub(mask, text)
    # A time of its own is shown where it differs from the whole: as often as the clock says.
    return re.sub(r"[ \t]+", " ", re.sub(r"<time>(\s+<time>)+", "<time>", text)).strip()


def masked(value: Any, folder: Path, runs: dict[str, str], keys: bool = False) -> Any:
    """A JSON value with the same masks."""
    if isinstance(value, dict):
        return {
            masked(str(key), folder, runs): "…" if _VOLATILE.search(str(key)) else masked(one, folder, runs)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(one, folder, runs) for one in value]
    if isinstance(value, str):
        return masked_text(value, folder, runs)
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value


def outline(value: Any, room: int = _WHOLE) -> Any:
    """A value whose large parts are digests, so that a difference is still found in its place."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) <= room:
        return value
    if isinstance(value, dict):
        return {key: outline(one, max(room // max(len(value), 1), 200)) for key, one in value.items()}
    if isinstance(value, list) and len(value) <= 200:
        return [outline(one, max(room // max(len(value), 1), 200)) for one in value]
    return f"sha256 of {len(text)} characters: {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """All data and all words, masked, made in this folder."""
    environment = {
        **{name: text for name, text in os.environ.items() if not name.endswith("_API_KEY")},
        "RAGROUNDS_HOME": str(folder / "home"),
        "RAGROUNDS_CONFIG": str(folder / "none.toml"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_RUNTIME_DIR": str(folder),
        "COLUMNS": "120",
        "TZ": "UTC",
        "NO_COLOR": "1",
    }
    back = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        with _fixed_packages(), stand_in_server() as url:
            scenario = Scenario(folder, url)
            data: dict[str, Any] = {}
            for name, make in DATA_OUTPUTS.items():
                data[name] = make(scenario)
                if name == "run":
                    scenario.questions = _asked()
            words = {name: make(scenario) for name, make in WORD_OUTPUTS.items()}
            runs = scenario.runs()
    finally:
        os.chdir(back[1])
        os.environ.clear()
        os.environ.update(back[0])
    keys = {"journal_keys"}  # the one place where digests are what is looked at
    return {
        "data": {
            name: outline(one if name in keys else masked(one, folder, runs), 10**9 if name in keys else _WHOLE)
            for name, one in data.items()
        },
        "words": {name: masked_text(text, folder, runs) + "\n" for name, text in words.items()},
    }


def _asked() -> list[str]:
    """Ids of a multiple choice and of a long question that every run has."""
    import ragrounds as rr

    frame = rr.load("direct").to_pandas("attempts")
    return sorted(frame["question_id"])[:2]


@contextlib.contextmanager
def _fixed_packages() -> Iterator[None]:
    """Let lists of what is installed show the same optional packages on every machine."""
    find_spec = importlib.util.find_spec

    def fixed(name: str, package: str | None = None) -> Any:
        if name in PACKAGES:
            return importlib.machinery.ModuleSpec(name, None) if PACKAGES[name] else None
        return find_spec(name, package)

    importlib.util.find_spec = fixed
    try:
        yield
    finally:
        importlib.util.find_spec = find_spec


def main() -> None:
    """Write what is made now in place of what is kept."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--write", choices=["words", "data"], required=True)
    reader.add_argument("names", nargs="*")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = outputs(Path(folder))[given.write]
    for name, value in made.items():
        if given.names and name not in given.names:
            continue
        if given.write == "words":
            WORDS.mkdir(exist_ok=True)
            (WORDS / f"{name}.txt").write_text(value, encoding="utf-8")
        else:
            DATA.mkdir(exist_ok=True)
            text = json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)
            (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
