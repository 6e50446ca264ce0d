"""Link prediction from a graph of DRKG's size: processor time and peak memory.

    python perf/link_prediction.py [--data DATA] [--triplets 5900000]

It writes a file of DRKG's form (entities ``Type::id``, relations ``Source::code::Type:Type``, the public table's counts
by pair of types, made-up ids), reads it in a process of its own as ``mrag/drkg``, and writes
``perf/link_prediction.md``. With DATA (docs/reference/benchmarks.md) the UMLS semantic network is read too.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
PAIRS = {
    ("Gene", "Gene"): (2_350_931, ["STRING::BINDING", "INTACT::ASSOCIATION", "GNBR::Rg", "Hetionet::GiG"]),
    ("Compound", "Compound"): (1_385_757, ["DRUGBANK::ddi-interactor-in", "Hetionet::CrC"]),
    ("Anatomy", "Gene"): (726_495, ["Hetionet::AeG", "Hetionet::AdG", "Hetionet::AuG"]),
    ("Gene", "Biological Process"): (559_504, ["Hetionet::GpBP"]),
    ("Compound", "Gene"): (210_794, ["GNBR::N", "GNBR::E+", "Hetionet::CbG", "DRUGBANK::target"]),
    ("Compound", "Side Effect"): (138_944, ["Hetionet::CcSE"]),
    ("Gene", "Disease"): (123_837, ["GNBR::L", "GNBR::J", "GNBR::Md", "GNBR::U"]),
    ("Compound", "Disease"): (
        83_895,
        ["GNBR::T", "GNBR::C", "GNBR::Sa", "GNBR::Pr", "GNBR::Pa", "GNBR::J", "GNBR::Mp", "DRUGBANK::treats"],
    ),
}
"""Types → triplets in DRKG's public table (other pairs are left out, Gene:Gene fills the rest), some of its relations,
the most frequent first."""
SIZES = {"Gene": 39_220, "Compound": 24_313, "Disease": 5_103, "Anatomy": 400, "Biological Process": 11_381}
SIZES["Side Effect"] = 5_701


def write_graph(folder: Path, count: int) -> None:
    """The triplets in random order, and a name for every entity."""
    drawn = random.Random(0)
    share = count / sum(number for number, _ in PAIRS.values())
    kinds = [
        (one, other, relation, max(1, round(number * share * weight)))
        for (one, other), (number, relations) in PAIRS.items()
        for relation, weight in zip(relations, _falling(len(relations)), strict=True)
    ]
    left = [number for *_, number in kinds]
    with (folder / "drkg.tsv").open("w", encoding="utf-8") as file:
        while total := sum(left):
            for place in drawn.choices(range(len(kinds)), left, k=min(total, 200_000)):
                if not left[place]:
                    continue
                left[place] -= 1
                one, other, relation, _ = kinds[place]
                head, tail = drawn.randrange(SIZES[one]), drawn.randrange(SIZES[other])
                file.write(f"{one}::{head}\t{relation}::{one}:{other}\t{other}::{tail}\n")
    with (folder / "names.tsv").open("w", encoding="utf-8") as file:
        for kind, size in SIZES.items():
            for number in range(size):
                file.write(f"{kind}::{number}\t{kind.lower()} number {number}\n")


def _falling(count: int) -> list[float]:
    weights = [1 / (place + 1) for place in range(count)]
    return [weight / sum(weights) for weight in weights]


READ = """
import json, resource, sys, time
from pathlib import Path
from ragrounds.evals.benchmarks import load

reference, began = sys.argv[1], time.process_time()
found = load(reference, Path(sys.argv[2]))
loaded, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({
    "questions": len(found), "options": max(len(one.options) for one in found.questions), "version": found.version,
    "load": loaded - began, "memory": memory,
}))
"""


def measured(reference: str, folder: Path) -> dict[str, float]:
    """What a process of its own takes to load a benchmark."""
    done = subprocess.run(
        [sys.executable, "-c", READ, reference, str(folder / "home")],
        check=True,
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--triplets", type=int, default=5_900_000)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "drkg").mkdir()
        began = time.perf_counter()
        write_graph(folder / "drkg", given.triplets)
        with (folder / "drkg" / "drkg.tsv").open("rb") as file:
            lines = sum(1 for _ in file)
        size = (folder / "drkg" / "drkg.tsv").stat().st_size / 1e6
        print(f"written in {time.perf_counter() - began:.0f} s: {lines:,} triplets, {size:.0f} MB", flush=True)
        rows.append(
            (f"{lines:,} triplets of DRKG's form", "mrag/drkg", measured(f"mrag/drkg:{folder / 'drkg'}", folder))
        )
        if given.data:
            umls = measured(f"link/umls:{given.data / 'umls_kg'}", folder)
            rows.append(("UMLS semantic network, 6,529 triplets", "link/umls", umls))
    table = [_row(*row) for row in rows]
    print("\n".join(table))
    (HERE.with_suffix(".md")).write_text(_page(table), encoding="utf-8")


def _row(graph: str, reference: str, found: dict[str, float]) -> str:
    cells = (
        *(graph, f"`{reference}`", f"{found['questions']:,}", f"{found['options']}"),
        *(f"{found['load']:.0f} s", f"{found['memory']:.0f} MB"),
    )
    return f"| {' | '.join(cells)} |"


def _page(table: list[str]) -> str:
    heads = (*("graph", "benchmark", "questions", "options", "load", "peak of loading"),)
    return "\n".join(
        (
            "# Link prediction from large graphs",
            "",
            "`python perf/link_prediction.py --data DATA` writes this page. The graph of DRKG's form is made up: its",
            "types, relations and numbers are about the public table's, its entities are numbers. A process reads the",
            "file a few times to load (relations, candidates, relations between the entities drawn), and holds names,",
            "relations and the sample, never the triplets. Seconds are processor time of one core.",
            "",
            f"| {' | '.join(heads)} |",
            f"|{'---|' * len(heads)}",
            *table,
            "",
        )
    )


if __name__ == "__main__":
    main()
