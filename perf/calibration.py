"""Calibration, abstention and harm: equality with libraries, and whether bounds and intervals hold what they say.

    python perf/calibration.py --data FOLDER [--simulations 1000] [--reference PYTHON]

FOLDER holds ``mirage/benchmark.json`` and ``mirage/predictions/gpt-35-turbo-16k_{cot,rag_32}.jsonl.gz``: both replies
to a question are two epochs of one agent, and their agreement is the confidence. PYTHON is an interpreter that has
netcal and torch-uncertainty; scikit-learn and MAPIE are read here. The truth of simulations is known by how they are
made.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

import numpy as np  # noqa: E402

import ragrounds as rr  # noqa: E402
from ragrounds.base.records import Question  # noqa: E402
from ragrounds.evals.analyses.run_data import scored_run  # noqa: E402
from ragrounds.evals.benchmarks.benchmark import cluster_of  # noqa: E402
from ragrounds.evals.store.store import Store  # noqa: E402
from ragrounds.extensions.diagnostics.analyses.calibration import BINS, THRESHOLDS, confidences, errors, risk_bounds  # noqa: E402
from ragrounds.extensions.diagnostics.analyses.harm import difference  # noqa: E402
from ragrounds.ui.tables.notebook import text_of  # noqa: E402

_LIBRARIES = r"""
import importlib.util, json, sys
import numpy as np, torch
from netcal.metrics import ECE
found = importlib.util.find_spec("torch_uncertainty").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("rc", found + "/metrics/classification/risk_coverage.py")
rc = importlib.util.module_from_spec(spec); spec.loader.exec_module(rc)
out = []
for sure, right in json.load(sys.stdin):
    metric = rc.AURC()
    metric.scores = [torch.tensor(sure, dtype=torch.float64)]
    metric.errors = [1 - torch.tensor(right, dtype=torch.float64)]
    ece = ECE(10).measure(np.array(sure), np.array(right).astype(int))
    out.append([float(ece), float(metric.partial_compute().double().mean())])
print(json.dumps(out))
"""


def drawn(draw: np.random.Generator, n: int, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Confidences and right answers; above a power of 1 the confidence is too high."""
    sure = draw.beta(4, 2, n)
    return sure, (draw.random(n) < sure**power).astype(float)


def equality(reference: str) -> None:
    """The largest difference to each library over 200 samples."""
    from mapie.metrics.calibration import expected_calibration_error
    from mapie.risk_control import BinaryClassificationController
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss

    draw, samples = np.random.default_rng(0), []
    gaps: dict[str, float] = {}

    def gap(name: str, ours: object, theirs: object) -> None:
        gaps[name] = max(gaps.get(name, 0.0), float(np.abs(np.subtract(ours, theirs)).max()))

    apart, both = 0, 0
    for number in range(200):
        sure, right = drawn(draw, 50 + 10 * number, draw.uniform(0.5, 2.5))
        order = np.argsort(-sure)
        sure, right = sure[order], right[order]
        samples.append((sure.tolist(), right.tolist()))
        ece, _ = errors(sure, right, ["one"] * len(sure))
        gap("ECE, MAPIE", ece.value, expected_calibration_error(right.astype(int), sure, BINS + 1, "uniform"))
        gap("Brier, scikit-learn", np.mean((sure - right) ** 2), brier_score_loss(right, sure))
        shares, _ = calibration_curve(right, sure, n_bins=BINS)
        places = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], sure)
        gap("reliability, scikit-learn", [right[places == one].mean() for one in np.unique(places)], shares)
        if number % 10 == 0 and sure.max() >= THRESHOLDS[-1]:  # at a threshold without answers MAPIE has no p value
            for risk in (0.2, 0.3, 0.4):
                theirs = BinaryClassificationController(
                    lambda each: np.column_stack([1 - each[:, 0], each[:, 0]]), "precision", 1 - risk,
                    confidence_level=0.95, list_predict_params=THRESHOLDS,
                )  # fmt: skip
                theirs.calibrate(sure[:, None], right.astype(int))
                both += 1
                apart += risk_bounds(sure, 1 - right, [risk]) != [min(theirs.valid_predict_params, default=None)]
    if reference:
        done = subprocess.run(
            [reference, "-c", _LIBRARIES], input=json.dumps(samples), capture_output=True, text=True, check=True
        )
        for (sure_, right_), (ece_, aurc_) in zip(samples, json.loads(done.stdout.splitlines()[-1]), strict=True):
            ours = errors(np.array(sure_), np.array(right_), ["one"] * len(sure_))
            gap("ECE, netcal", ours[0].value, ece_)
            gap("AURC, torch-uncertainty", ours[1].value, aurc_)
    print("| figure, library | largest difference over 200 samples |\n|---|---|")
    for name, most in gaps.items():
        print(f"| {name} | {most:.1e} |")
    print(f"| threshold, MAPIE's risk control | {apart} of {both} differ |\n")


def risks(simulations: int) -> None:
    """How often the true risk at the threshold is at most α: the shown one, and the lowest one of the sample."""
    big, right = drawn(np.random.default_rng(99), 2_000_000, 1.5)
    truth = {t: 1 - right[big >= t - 1e-9].mean() for t in THRESHOLDS if (big >= t - 1e-9).any()}
    print(
        "| questions | α | threshold shown | true risk ≤ α | the lowest in the sample instead |\n|---|---|---|---|---|"
    )
    for n in (100, 500, 2_000):
        for risk in (0.1, 0.2, 0.3):
            held, plain, shown = 0, 0, 0
            for number in range(simulations):
                sure, right = drawn(np.random.default_rng([number, n]), n, 1.5)
                found = risk_bounds(sure, 1 - right, [risk])[0]
                shown += found is not None
                held += found is None or truth[found] <= risk
                fits = [t for t in truth if (sure >= t).any() and 1 - right[sure >= t].mean() <= risk]
                plain += not fits or truth[min(fits)] <= risk
            print(
                f"| {n:,} | {risk} | {shown / simulations:.1%} | {held / simulations:.1%} | {plain / simulations:.1%} |"
            )
    print()


def intervals(simulations: int) -> None:
    """How often the intervals of ECE (which has none: never) and AURC hold the truth."""
    print("| confidence | questions | true ECE, held | true AURC, held |\n|---|---|---|---|")
    for power, name in ((1.0, "calibrated"), (1.5, "too high"), (3.0, "much too high")):
        big, right = drawn(np.random.default_rng(98), 1_000_000, power)
        order = np.argsort(-big)
        truth = [one.value for one in errors(big[order], right[order], ["one"] * len(big))]
        for n in (200, 1_000):
            held = np.zeros(2)
            for number in range(simulations):
                sure, right = drawn(np.random.default_rng([number, n, 7]), n, power)
                order = np.argsort(-sure)
                made = errors(sure[order], right[order], [str(place) for place in range(n)], number)
                held += [
                    one.low is not None and one.low <= true <= one.high for one, true in zip(made, truth, strict=True)
                ]
            ece, aurc = (f"{true:.3f}, {each / simulations:.1%}" for true, each in zip(truth, held, strict=True))
            print(f"| {name} | {n:,} | {ece} | {aurc} |", flush=True)
    print()


def crossings(simulations: int) -> None:
    """How often the interval of the price at which two agents lose the same holds the true one."""
    print("| questions | wrong, none: A | B | true price | held | too few | no bound |\n|---|---|---|---|---|---|---|")
    cases = [
        ((0.3, 0.0), (0.2, 0.15)),
        ((0.3, 0.05), (0.25, 0.15)),
        ((0.2, 0.05), (0.1, 0.3)),
        ((0.4, 0.02), (0.26, 0.04)),
    ]
    for n in (200, 1_000):
        for first, second in cases:
            true = (second[1] - first[1]) / (first[0] - second[0])
            held, few, open_ = 0, 0, 0
            for number in range(simulations):
                draw = np.random.default_rng([number, n, round(1000 * true)])
                # A fifth are duplicates, two and two, within their datasets.
                clusters = [f"{place // 4}/{place % 2}" if place < n // 5 else "" for place in range(n)]
                asked = [Question(id=f"q{i}", benchmark=f"b{i % 2}", cluster=clusters[i], text="") for i in range(n)]
                twin = np.array([place - 2 * (place % 4 > 1) if place < n // 5 else place for place in range(n)])
                hard = draw.random(n)[twin]  # both find the same questions hard
                sides = []
                for wrong, none in (first, second):
                    own = np.where(draw.random(n)[twin] < 0.5, hard, draw.random(n)[twin])
                    made = np.column_stack([own < wrong, (own >= wrong) & (own < wrong + none)]).astype(float)
                    sides.append({one.id: (*row, *row) for one, row in zip(asked, made.tolist(), strict=True)})
                one = difference(asked, *sides)
                few += one.squares is None
                if one.squares is not None and one.low is not None:
                    held += one.low <= true <= (one.high if one.high is not None else np.inf)
                    open_ += one.high is None
            known = max(1, simulations - few)
            print(
                f"| {n:,} | {first[0]:.0%}, {first[1]:.0%} | {second[0]:.0%}, {second[1]:.0%} | {true:.2f} | "
                f"{held / known:.1%} | {few / simulations:.1%} | {open_ / known:.1%} |",
                flush=True,
            )
    print()


def mirage(data: Path, simulations: int) -> None:
    """MIRAGE's recorded replies: abstention, agreement, harm; and the bound over splits."""
    with tempfile.TemporaryDirectory() as home:
        rows = Path(home, "both.jsonl")
        sent = [data / "mirage" / "predictions" / f"gpt-35-turbo-16k_{one}.jsonl.gz" for one in ("cot", "rag_32")]
        with rows.open("w") as file:
            for epoch, path in enumerate(sent):
                with gzip.open(path, "rt") as lines:
                    for line in map(json.loads, lines):
                        id, text = f"mirage/{line['dataset']}/{line['id']}", (line["raw"] or [""])[0]
                        file.write(json.dumps({"question_id": id, "answer": text, "epoch": epoch}) + "\n")
        benchmark = f"mirage:{data / 'mirage' / 'benchmark.json'}"
        rr.import_runs(rows, benchmark, agent="both", fields={"id": "question_id"}, home=home)
        rr.import_runs(sent, benchmark, format="mirage-predictions", home=home)
        ids = {run.agent: run.id for run in rr.runs(home=home)}
        both, single = ids.pop("both"), sorted(ids.values())
        for name, runs in (("calibration", [both]), ("abstention", [*single, both]), ("harm", single)):
            print(f"```\n{text_of(rr.analyse(name, runs, scorer='robust', home=home).draw)}\n```\n", flush=True)
        with Store(Path(home)) as store:
            run = scored_run(store, store.select_runs([both])[0], "robust")
            _, sure = confidences(store, run)
        first = {cluster_of(one): one.id for one in reversed(run.questions)}.values()
        right = {one.question_id: one.value for one in run.scores if one.epoch == 0}
    known = np.array([sure.get((id, 0), -1.0) for id in first])
    wrong = np.array([0.0 if (id, 0) not in sure else 1 - right[id] for id in first])
    print("| α | threshold shown | risk of the others ≤ α | answered |\n|---|---|---|---|")
    for risk in (0.2, 0.25, 0.3, 0.35, 0.4):
        shown, held, answered = 0, 0, []
        for number in range(simulations):
            half = np.random.default_rng([number, 5]).permutation(len(known)) < 2_000
            found = risk_bounds(known[half], wrong[half], [risk])[0]
            given = known[~half] >= (2.0 if found is None else found - 1e-9)
            shown += found is not None
            held += found is None or wrong[~half][given].mean() <= risk
            answered.append(given.mean())
        print(f"| {risk} | {shown / simulations:.1%} | {held / simulations:.1%} | {np.mean(answered):.1%} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--reference", default="")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="No predict parameters")
    equality(given.reference)
    risks(given.simulations)
    crossings(given.simulations)
    if given.data:
        mirage(given.data, given.simulations)
    intervals(max(20, given.simulations // 10))


if __name__ == "__main__":
    main()
