"""One corpus in our engines and in those of others: quality, agreement, speed, and what a killed server does to a run.

    python perf/external_engines.py BEIR_FOLDER [--model PATH] [--keep FOLDER] [--part measured|killed]

Builds an index of a BEIR folder, brings its passages to every engine whose client is installed, and
asks all of them the same questions. Vectors come from a sentence-transformers model (``--model``), made once and
kept in ``--keep``; without one they are bags of hashed words, and the page says so. In the speeds the vectors of
questions are there already: what is measured is the engine and its client, in one thread.

Then, for each engine, `ragrounds run` with a loopback model: a server is killed and started again in the middle, and
killed for good; for engines inside the process the run itself is killed, and given again. Writes
perf/external_engines.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pytrec_eval
from langchain_core.embeddings import Embeddings

from ragrounds.api import index
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.index.collection import open_named
from ragrounds.tools.index.embedders import joined
from ragrounds.tools.retriever import open_searcher, retrievers
from tests.extensions.engines.engine_servers import chroma, pgvector_programs
from tests.extensions.engines.filled_engines import Row as Passed
from tests.extensions.engines.filled_engines import fill
from tests.servers.postgresql import restartable
from tests.servers.process import Running, openai_server

EMBED = "import:external_engines:Kept"
EXACT = f"dense[model={EMBED},store=faiss]"
KEPT = "PERF_VECTORS"
HASHED = 384
CORPUS = "papers"
KILLED = "## Killed in the middle of a run\n"
QUESTIONS, LATENCY = 40, 0.25
NAMES = {
    "chroma": "Chroma, server",
    "chroma_folder": "Chroma, folder",
    "pgvector": "PostgreSQL + pgvector",
    "lancedb": "LanceDB, folder",
    "qdrant": "Qdrant, in process",
}
CLIENTS = {
    "chroma": "chromadb",
    "chroma_folder": "chromadb",
    "lancedb": "lancedb",
    "qdrant": "qdrant_client",
}


class Kept(Embeddings):
    """Vectors that were made before, by text; of another text a bag of hashed words."""

    def __init__(self) -> None:
        kept = np.load(Path(os.environ[KEPT]))
        self._rows = {key: row for row, key in enumerate(kept["keys"].tolist())}
        self._vectors = kept["vectors"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector a text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        row = self._rows.get(_key(text))
        return (hashed(text, self._vectors.shape[1]) if row is None else self._vectors[row]).tolist()


def hashed(text: str, dimensions: int) -> np.ndarray:
    """A bag of hashed words, of length 1."""
    vector = np.full(dimensions, 1e-6, dtype=np.float32)
    for word in text.lower().split():
        vector[int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16) % dimensions] += 1
    return vector / np.linalg.norm(vector)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Server(NamedTuple):
    """A server that can be killed."""

    kill: Callable[[], None]
    start: Callable[[], None]


class Target(NamedTuple):
    """An engine: what is filled, and its server where it has one."""

    name: str
    spec: Spec
    server: Server | None


class Row(NamedTuple):
    """What was measured of a retriever."""

    ndcg: float
    alone: float
    batch: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--called", default="", help="the model's name on the page")
    parser.add_argument("--keep", type=Path, help="where the vectors are kept")
    parser.add_argument("--part", choices=("measured", "killed"), help="of the page; the other stays as it is")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="ragrounds-engines-"))
    place.chmod(0o755)
    try:
        measured_part, killed_part = page(options, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    path = Path(__file__).with_suffix(".md")
    before, mark, after = path.read_text(encoding="utf-8").partition(KILLED) if path.is_file() else ("", "", "")
    text = (measured_part or before) + (killed_part or mark + after)
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(text)


def page(options: argparse.Namespace, place: Path) -> tuple[str, str]:
    """The two parts of the page; empty: not asked for."""
    documents, queries, qrels = beir(options.corpus)
    os.environ[KEPT] = str(vectors_of(options, place, documents, queries))
    home, corpus = place / "home", CORPUS
    index.build(corpus, f"beir:{options.corpus}", retrievers=["bm25"], home=home, progress=False)
    away: list[str] = []
    with contextlib.ExitStack() as stack:
        targets = targets_in(place, stack, away)
        specs, seconds = {}, {}
        for target in targets:
            begun = time.perf_counter()
            specs[target.name] = filled(target.spec, home)
            seconds[target.name] = time.perf_counter() - begun
        first = second = ""
        if options.part != "killed":
            first = "\n".join(table(options, documents, queries, qrels, specs, seconds, home)) + "\n"
            first += "".join(f"\nNot here: {name}.\n" for name in away) + "\n"
        if options.part != "measured":
            second = "\n".join(kills(targets, specs, place, options.corpus.name)) + "\n"
        return first, second


def table(
    options: argparse.Namespace,
    documents: Sequence[tuple[str, str]],
    queries: dict[str, str],
    qrels: dict[str, dict[str, int]],
    specs: dict[str, str],
    seconds: dict[str, float],
    home: Path,
) -> Iterator[str]:
    """What was measured, line by line."""

    def of(spec: str) -> tuple[Row, list[list[str]]]:
        """A retriever's figures and hits."""
        return measured(spec, home, queries, qrels)

    exact = of(EXACT)
    yield "# Engines of others beside ours\n"
    vectors = f"vectors of {options.called or Path(options.model).name}" if options.model else "bags of hashed words"
    yield (
        f"`python perf/external_engines.py`, {time.strftime('%Y-%m-%d', time.gmtime())}: {len(documents):,} "
        f"passages and {len(queries):,} questions of {options.corpus.name}, {vectors}; {platform.machine()}, "
        f"{os.cpu_count()} cores shared with other work, Python {platform.python_version()}. Every engine was "
        "filled by its client and asked through its retriever, as a run asks it, for 10 passages. "
        "Overlap: the share of the exact search's ten that it finds. Questions a second: one at a time, and 64 in a "
        "call; their vectors were there.\n"
    )
    yield "| engine | nDCG@10 | overlap@10 | fused with BM25: nDCG@10 | questions/s | 64 in a call | filled, s |"
    yield "|---|---|---|---|---|---|---|"
    yield line("BM25 (ours)", of("bm25"), exact[1], None, None)
    yield line("exact vectors (ours, FAISS flat)", exact, exact[1], of(f"rrf[a=bm25,b={EXACT}]"), None)
    for name, spec in specs.items():
        yield line(NAMES[name], of(spec), exact[1], of(f"rrf[a=bm25,b={spec}]"), seconds[name])


def line(name: str, one: tuple[Row, list], exact: list, fused: tuple[Row, list] | None, seconds: float | None) -> str:
    """A row of the table."""
    row, hits = one
    overlap = fmean(len(set(here) & set(there)) / max(1, len(there)) for here, there in zip(hits, exact, strict=True))
    both = f"{fused[0].ndcg:.4f}" if fused else ""
    batch = "" if np.isnan(row.batch) else f"{row.batch:,.0f}"
    took = "" if seconds is None else f"{seconds:.1f}"
    return f"| {name} | {row.ndcg:.4f} | {overlap:.3f} | {both} | {row.alone:,.0f} | {batch} | {took} |"


def beir(folder: Path) -> tuple[list[tuple[str, str]], dict[str, str], dict[str, dict[str, int]]]:
    """Titles and texts, queries with judgements, and the judgements."""
    rows = [json.loads(text) for text in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [json.loads(text) for text in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    qrels: dict[str, dict[str, int]] = {}
    for text in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, score = text.split("\t")
        qrels.setdefault(query, {})[document] = int(score)
    return (
        [(row.get("title", ""), row["text"]) for row in rows],
        {row["_id"]: row["text"] for row in asked if row["_id"] in qrels},
        qrels,
    )


def vectors_of(
    options: argparse.Namespace, place: Path, documents: Sequence[tuple[str, str]], queries: dict[str, str]
) -> Path:
    """The file of vectors, by the hash of their texts."""
    folder = options.keep or place
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{options.corpus.name}-{_key(options.model)}.npz"
    if path.is_file():
        return path
    texts = [*(joined(title, text, "sentence") for title, text in documents), *queries.values()]
    if options.model:
        from sentence_transformers import SentenceTransformer

        made = SentenceTransformer(options.model).encode(texts, normalize_embeddings=True, show_progress_bar=True)
    else:
        made = np.array([hashed(text, HASHED) for text in texts])
    np.savez(path, keys=np.array([_key(text) for text in texts]), vectors=made.astype(np.float32))
    return path


def targets_in(place: Path, stack: contextlib.ExitStack, away: list[str]) -> list[Target]:
    """The engines that are here, servers started."""
    made = []
    for name in NAMES:
        if name.removesuffix("_folder") not in retrievers():
            away.append(NAMES[name])
        elif name == "pgvector":
            programs = pgvector_programs()
            if programs is None or importlib.util.find_spec("psycopg_pool") is None:
                away.append(NAMES[name])
                continue
            postgresql = stack.enter_context(restartable(programs))
            server = Server(lambda one=postgresql: one.stop("immediate"), postgresql.start)
            made.append(Target(name, Spec("pgvector", {"url": postgresql.url, "table": CORPUS}), server))
        elif importlib.util.find_spec(CLIENTS[name]) is None:
            away.append(NAMES[name])
        elif name == "chroma":
            running = stack.enter_context(chroma(place / "chroma-server"))
            made.append(
                Target(
                    name,
                    Spec("chroma", {"url": running.url, "collection": CORPUS}),
                    Server(running.kill, running.start),
                )
            )
        else:
            engine = name.removesuffix("_folder")
            called = "table" if engine == "lancedb" else "collection"
            made.append(Target(name, Spec(engine, {"path": str(place / name), called: CORPUS}), None))
    return made


def measured(
    spec: str, home: Path, queries: dict[str, str], qrels: dict[str, dict[str, int]]
) -> tuple[Row, list[list[str]]]:
    """Ask a retriever all questions, one at a time and many in a call."""
    searcher = open_searcher(spec, CORPUS, home)
    texts = list(queries.values())

    async def ask() -> tuple[list[list[Passage]], float, float]:
        await searcher.search(texts[0], 10)  # what is loaded at the first search
        begun = time.perf_counter()
        hits = [await searcher.search(text, 10) for text in texts]
        alone = len(texts) / (time.perf_counter() - begun)
        many = getattr(searcher, "search_many", None)
        if many is None:
            return hits, alone, float("nan")
        begun = time.perf_counter()
        for start in range(0, len(texts), 64):
            await many(texts[start : start + 64], 10)
        return hits, alone, len(texts) / (time.perf_counter() - begun)

    hits, alone, batch = asyncio.run(ask())
    run = {query: {hit.id: 1.0 / hit.rank for hit in each} for query, each in zip(queries, hits, strict=True)}
    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    ndcg = fmean(scores.get(query, {}).get("ndcg_cut_10", 0.0) for query in queries)
    getattr(searcher, "close", lambda: None)()
    return Row(ndcg, alone, batch), [[hit.id for hit in each] for each in hits]


def kills(targets: Sequence[Target], specs: dict[str, str], place: Path, corpus: str) -> Iterator[str]:
    """What a kill in the middle of a run does, engine by engine."""
    yield KILLED
    yield (
        f"`ragrounds run` with `vanilla_rag` over {corpus}, {QUESTIONS} questions, a model on loopback that takes "
        f"{LATENCY} s. A server is killed (SIGKILL, or PostgreSQL's immediate stop) after some ten attempts and "
        "started again 4 s later; then killed for good, and started for a second command that resumes the run. An "
        "engine inside the process dies with it: the run is killed by SIGKILL, and the same command given again.\n"
    )
    yield "| engine | what was done | completed | failed | what it said |"
    yield "|---|---|---|---|---|"
    with openai_server("--latency", str(LATENCY)) as model:
        for number, target in enumerate(targets):
            home = place / f"runs-{number}"
            spec = specs[target.name]
            if target.server is None:  # filled again by a process of its own: this one keeps the first place open
                fresh = target.spec.having(path=str(place / f"fresh-{target.name}"))
                with ProcessPoolExecutor(1, get_context("spawn")) as apart:
                    spec = apart.submit(filled, fresh, place / "home").result()
            command = [
                sys.executable, "-m", "ragrounds", "run", "--agent", "vanilla_rag", "--retriever", spec,
                "--model", "openai:made-up", "--base-url", model.url, "--limit", str(QUESTIONS), "--concurrency", "2",
                "--display", "none", "--json", "--yes",
            ]  # fmt: skip
            yield from killed(target, command, home, model)


def filled(spec: Spec, home: Path) -> str:
    """Fill an engine with all passages, and give the retriever that searches it."""
    kept, passages = Kept(), open_named(CORPUS, home).store.iterate()
    rows = [
        Passed(*texts, np.asarray(kept.embed_query(joined(texts[2], texts[3], "sentence")), np.float32))
        for texts in passages
    ]
    for start in range(0, len(rows), 500):
        fill(spec, rows[start : start + 500])
    return str(spec.having(embed=EMBED))


def surroundings(home: Path) -> dict[str, str]:
    """The environment of a command."""
    root = Path(__file__).resolve().parents[1]
    return {
        **os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "k",
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'perf'}", "RAGROUNDS_CONFIG": str(home / "none.toml"),
    }  # fmt: skip


def killed(target: Target, command: list[str], home: Path, model: Running) -> Iterator[str]:
    """The rows of one engine."""
    environment = surroundings(home)

    def begun(wait: bool = True) -> subprocess.Popen[str]:
        """Begin the command; some ten attempts are over when this returns."""
        before = model.account().calls
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while wait and model.account().calls < before + 10 and process.poll() is None:
            time.sleep(0.2)
        return process

    def told(process: subprocess.Popen[str], what: str) -> str:
        out, err = process.communicate(timeout=300)
        try:
            statuses = json.loads(out)["rows"][0]["statuses"]
        except (ValueError, LookupError, TypeError):
            statuses = {}
        lines = [text for text in err.splitlines() if text.strip()]
        assert "Traceback" not in err, err
        said = lines[-1][:160].replace("|", "/") if lines else ""
        rest = {key: value for key, value in statuses.items() if key != "completed"}
        return f"| {NAMES[target.name]} | {what} | {statuses.get('completed', 0)} | {sum(rest.values())} | {said} |"

    server = target.server
    if server is None:
        first = begun()
        first.send_signal(signal.SIGKILL)
        first.communicate()
        yield told(begun(False), f"the run killed (signal {-(first.returncode or 0)}), given again")
        return
    process = begun()
    server.kill()
    time.sleep(4)
    server.start()
    yield told(process, "server killed, back after 4 s")
    command += ["--journal", "fresh", "--new"]  # what the first run found would answer in the server's place
    process = begun()
    server.kill()
    yield told(process, "server killed for good")
    server.start()
    command.remove("--new")
    yield told(begun(False), "server back, the same command again")


if __name__ == "__main__":
    main()
