"""How much a model server's answers vary between equal calls, and what that means for intervals.

    python perf/server_noise.py URL MODEL ANSWERS SERVER [questions]
    python perf/server_noise.py

The first asks the sample's first multiple-choice questions with `direct`, three times each at 1, 4 and 16 in flight and
at temperatures 0 and .7, each time in an empty home, and writes the section SERVER of perf/server_noise.md. Answers are
appended to the file ANSWERS; the same command continues from there. The second simulates intervals with and without a
term for the noise.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

import ragrounds as rr
from ragrounds.api.concurrency_check import answer_sample
from ragrounds.evals.stats.estimates import stratified_mean

IN_FLIGHT = 1, 4, 16
TEMPERATURES = 0.0, 0.7
RUNS = 3
TOKENS = 32
DRAWS = 2_000
Z = 1.959964
MEASURED_HEAD = """\
| temperature | in flight | texts | scores | accuracies | largest | bound |
|---|---|---|---|---|---|---|"""
SHIFT_HEAD = """\
| temperature | in flight | texts | scores |
|---|---|---|---|"""
SIMULATION = "Intervals over questions contain the noise"
SIMULATED_HEAD = f"""\
Simulated, {DRAWS:,} draws a line: n questions of a population in which half of the answers are right, one run of them,
and a second run of the same questions. Percent of 95 % intervals over questions that hold the population's accuracy,
as tables have them and widened by a term for the noise; percent of pairs of identical runs that differ by more than
±1.96·√(2v/n); and percent of such pairs that the exact paired test calls significant at 5 %.

| n | scores that change, % | interval holds | widened holds | identical runs outside | significant |
|---|---|---|---|---|---|"""
SIMULATED_TAIL = """\
An interval over questions needs no term: one run's scores vary by question and by noise, and the interval is made of
that variance. A term would count the noise twice. Where the questions are fixed (a run against its own repetition, a
counterfactual), the noise is all there is, and two identical runs differ by up to ±1.96·√(2v/n). A shift with the
concurrency is not independent noise: no interval contains it, so runs are compared at one concurrency.
"""


class Measured(NamedTuple):
    """Answers of one run, in the order of the questions."""

    temperature: float
    in_flight: int
    run: int
    texts: list[str]
    scores: list[float]


def measure(url: str, model: str, file: Path, count: int) -> list[Measured]:
    """Make the runs that the file lacks, one after the other over all conditions, and return all."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    measured = [Measured(**json.loads(line)) for line in lines]
    made = {answers[:3] for answers in measured}
    for run, temperature, in_flight in itertools.product(range(RUNS), TEMPERATURES, IN_FLIGHT):
        if (temperature, in_flight, run) in made:
            continue
        text = f"openai:{model}[temperature={temperature},max_tokens={TOKENS}]"
        sample = answer_sample(text, in_flight, rr.Settings(), base_url=url, count=count)
        answers = Measured(
            temperature, in_flight, run, list(sample.texts.values()), [sample.scores[id] for id in sample.texts]
        )
        measured.append(answers)
        with file.open("a", encoding="utf-8") as output:
            output.write(json.dumps(answers._asdict()) + "\n")
    return measured


def changed(first: list[object], second: list[object]) -> float:
    """Return the share of elements that differ."""
    return fmean(a != b for a, b in zip(first, second, strict=True))


def measured_rows(measured: list[Measured]) -> Iterator[str]:
    """Yield a line for each condition: what differs between its runs."""
    for temperature, in_flight in itertools.product(TEMPERATURES, IN_FLIGHT):
        runs = [run for run in measured if (run.temperature, run.in_flight) == (temperature, in_flight)]
        pairs = list(itertools.combinations(runs, 2))
        texts = fmean(changed(first.texts, second.texts) for first, second in pairs)
        scores = fmean(changed(first.scores, second.scores) for first, second in pairs)
        widest = max(abs(fmean(first.scores) - fmean(second.scores)) for first, second in pairs)
        bound = Z * math.sqrt(scores / len(runs[0].scores))  # 2v is the share of scores that change
        accuracies = ", ".join(f"{100 * fmean(run.scores):.0f}" for run in runs)
        yield (
            f"| {temperature:g} | {in_flight} | {100 * texts:.0f} | {100 * scores:.0f} | {accuracies} | "
            f"{100 * widest:.0f} | {100 * bound:.0f} |"
        )


def shift_rows(measured: list[Measured]) -> Iterator[str]:
    """Yield what differs between runs of different concurrency, at each temperature."""
    for temperature, (low, high) in itertools.product(TEMPERATURES, itertools.combinations(IN_FLIGHT, 2)):
        runs = {n: [run for run in measured if (run.temperature, run.in_flight) == (temperature, n)] for n in IN_FLIGHT}
        pairs = list(itertools.product(runs[low], runs[high]))
        texts = fmean(changed(first.texts, second.texts) for first, second in pairs)
        scores = fmean(changed(first.scores, second.scores) for first, second in pairs)
        yield f"| {temperature:g} | {low} against {high} | {100 * texts:.0f} | {100 * scores:.0f} |"


def simulated_rows() -> Iterator[str]:
    """Yield coverage of intervals over questions, and how two identical runs differ, for several amounts of noise.

    A question is certain (right or wrong), or a coin of the server: right with a probability of its own.
    """
    random = np.random.default_rng(1)
    for n, noisy in itertools.product((30, 100, 300), (0.0, 0.1, 0.3, 1.0)):
        plain = widened = outside = significant = 0
        change = []
        for _ in range(DRAWS):
            is_noisy = random.random(n) < noisy
            chances = np.where(is_noisy, random.beta(2, 2, n), random.random(n) < 0.5)
            first, second = (random.random((2, n)) < chances).astype(float)
            truth, variance = 0.5, float(np.mean(chances * (1 - chances)))
            interval = stratified_mean(first.tolist())
            assert interval.low is not None
            assert interval.high is not None
            plain += interval.low <= truth <= interval.high
            extra = Z * math.sqrt(variance / n)
            low, high = (math.hypot(end - interval.value, extra) for end in (interval.low, interval.high))
            widened += interval.value - low <= truth <= interval.value + high
            outside += abs(first.mean() - second.mean()) > Z * math.sqrt(2 * variance / n) + 1e-9
            won, lost = int((first > second).sum()), int((second > first).sum())
            significant += won + lost > 0 and binomtest(won, won + lost).pvalue < 0.05
            change.append(changed(first.tolist(), second.tolist()))
        shares = (plain, widened, outside, significant)
        cells = " | ".join(f"{100 * share / DRAWS:.1f}" for share in shares)
        yield f"| {n} | {100 * fmean(change):.0f} | {cells} |"


def server_section(measured: list[Measured]) -> str:
    """Return the tables of a server, and how they were measured."""
    return f"""Measured on {time.strftime("%Y-%m-%d", time.gmtime())}: {len(measured[0].texts)} questions.

{MEASURED_HEAD}
{chr(10).join(measured_rows(measured))}

{SHIFT_HEAD}
{chr(10).join(shift_rows(measured))}"""


def with_section(page: str, heading: str, text: str) -> str:
    """Return the page with this text under a heading; a new section is the last one before the simulation."""
    before, found, rest = page.partition(f"## {heading}\n")
    if not found:
        before, _, rest = page.partition(f"## {SIMULATION}\n")
        return f"{before}## {heading}\n{text}\n\n## {SIMULATION}\n{rest}"
    _, next_heading, after = rest.partition("\n## ")
    return f"{before}## {heading}\n{text}\n{next_heading}{after}"


def main() -> None:
    """Measure a server, or simulate, and write the section of the page."""
    path = Path(__file__).with_suffix(".md")
    page = path.read_text("utf-8")
    if len(sys.argv) == 1:
        page = with_section(page, SIMULATION, f"{SIMULATED_HEAD}\n{chr(10).join(simulated_rows())}\n\n{SIMULATED_TAIL}")
    else:
        url, model, file, heading = sys.argv[1:5]
        measured = measure(url, model, Path(file), int(sys.argv[5]) if len(sys.argv) > 5 else 10)
        page = with_section(page, heading, server_section(measured))
    path.write_text(page, encoding="utf-8")


main()
