"""How often corrected figures hold the truth, and how often the judge's own do: simulated, and on people's labels.

    python perf/corrected_judging.py DATA [simulations] [library]

It writes perf/corrected_judging.md, with glide-py as the library (Python 3.12) perf/corrected_judging_glide.md. DATA
holds K-QA's and SciFact's releases (``kqa``, ``scifact``). Every figure is one of `ragrounds judge agreement`: of
:func:`ragrounds.evals.judges.corrected.correct`. 1,000 simulations take some ten minutes of one core.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from datetime import date
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.judges.corrected import Corrected, Corrections, JudgedRow, correct
from ragrounds.evals.stats.agreement import majority
from ragrounds.evals.stats.intervals import Estimate

Floats = NDArray[np.float64]
Runs = dict[str, list[JudgedRow]]
QUESTIONS, LABELS = 250, 150
"""Of each simulation; the labels are those of both agents together."""
SAME = "the same questions"
_LARGE = 2_000_000


class Judge(NamedTuple):
    """How a judge errs: the share of wrong answers that it lets pass, and of right ones that it fails, by agent."""

    passes: tuple[float, float]
    fails: tuple[float, float]


JUDGES = {
    "lenient": Judge((0.6, 0.6), (0.03, 0.03)),
    "favours the second agent": Judge((0.1, 0.7), (0.2, 0.02)),
    "strict": Judge((0.02, 0.02), (0.4, 0.4)),
    "near perfect": Judge((0.08, 0.08), (0.02, 0.02)),
}
CELLS = (
    ("favours the second agent", 1, 1),
    ("lenient", 1, 2),
    ("favours the second agent", 5, 10),
    ("strict", 1, 10),
    ("near perfect", 1, 10),
)
"""Judges, the parts of an answer that each is asked about, and by what the number of simulations is divided."""
_AT_ONCE = 100
"""Simulations of one task."""
EASE = (0.9, 0.6)
"""Of the two agents: the log-odds of a right answer to a question of middling difficulty."""


def chances_of_right(hard: Floats, ease: float) -> Floats:
    """The chance of a right answer."""
    return 1 / (1 + np.exp(-(ease + hard)))


def shares(right: Floats, rng: np.random.Generator, parts: int) -> Floats:
    """Shares of the statements of answers that hold."""
    return rng.binomial(parts, right) / parts


def simulated(rng: np.random.Generator, judge: Judge, parts: int, design: str) -> Runs:
    """Two agents on the same questions, a judge of every answer, and people's labels of some."""
    hard, first = rng.normal(size=QUESTIONS), rng.random(QUESTIONS)
    runs: Runs = {}
    for place, name in enumerate(("a", "b")):
        person = shares(chances_of_right(hard, EASE[place]), rng, parts)
        held = np.round(person * parts).astype(int)
        said = rng.binomial(held, 1 - judge.fails[place]) + rng.binomial(parts - held, judge.passes[place])
        score = said / parts
        lot = first if design == SAME else rng.random(QUESTIONS)
        labelled, chance = drawn(lot, score, design, LABELS // 2)
        runs[name] = [
            JudgedRow(
                question=str(n),
                cluster=str(n),
                judge=float(score[n]),
                person=float(person[n]) if labelled[n] else None,
                chance=float(chance[n]),
            )
            for n in range(QUESTIONS)
        ]
    return runs


def drawn(lot: Floats, score: Floats, design: str, size: int) -> tuple[NDArray[np.bool_], Floats]:
    """Which answers are labelled, and with what chance: by lot alone, or by lot among those of the same verdict, in
    proportion to their number or half of the labels shared equally among verdicts."""
    labelled, chance = np.zeros(len(lot), dtype=bool), np.full(len(lot), size / len(lot))
    if "verdict" not in design:
        labelled[np.argsort(lot)[:size]] = True
        return labelled, chance
    verdicts = np.unique(score)
    left = size
    for place, verdict in enumerate(verdicts):
        among = np.flatnonzero(score == verdict)
        share = size * len(among) / len(lot)
        wanted = share if "proportion" in design else (share + size / len(verdicts)) / 2
        count = left if place == len(verdicts) - 1 else min(len(among), left, max(2, round(wanted)))
        labelled[among[np.argsort(lot[among])][:count]] = True
        chance[among] = min(count, len(among)) / len(among)
        left -= count
    return labelled, chance


def truths(parts: int) -> tuple[float, float]:
    """The two agents' figures in the population of questions."""
    hard = np.random.default_rng(0).normal(size=_LARGE)
    one, two = (float(chances_of_right(hard, ease).mean()) for ease in EASE)
    return one, two


class Held(NamedTuple):
    """What many corrections came to."""

    naive: float
    corrected: float
    naive_pair: float
    pair: float
    width: float
    pair_width: float
    worth: float
    order: float
    naive_order: float


def held(made: list[Corrections], one: float, two: float) -> Held:
    """Coverage of figures and differences, widths, and how often the higher figure is the better agent's."""
    rows = []
    for found in made:
        figures, (pair,) = found.figures, found.differences
        naive = [f.judge.low <= truth <= f.judge.high for f, truth in zip(figures, (one, two), strict=True)]
        fixed = [
            f.corrected is not None and f.corrected.low <= truth <= f.corrected.high
            for f, truth in zip(figures, (one, two), strict=True)
        ]
        gap, better = two - one, np.sign(two - one)
        known = pair.corrected
        rows.append(
            (
                np.mean(naive),
                np.mean(fixed),
                pair.judge.low <= gap <= pair.judge.high,
                np.nan if known is None else known.low <= gap <= known.high,
                np.mean([f.corrected.high - f.corrected.low if f.corrected else np.nan for f in figures]),
                np.nan if known is None else known.high - known.low,
                np.nanmean([np.nan if f.effective is None else f.effective for f in figures]),
                np.nan if known is None else np.sign(known.value) == better,
                np.sign(pair.judge.value) == better,
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a difference that no simulation has
        return Held(*np.nanmean(np.array(rows, dtype=float), axis=0))


def row(*cells: object) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def heading(*names: str) -> str:
    """The first two lines of a table."""
    return row(*names) + "\n" + row(*["---"] * len(names))


def batch(judge: Judge, parts: int, design: str, by: str, seed: tuple[int, ...], draws: int) -> list[Corrections]:
    """Some simulations."""
    rng = np.random.default_rng(seed)
    return [correct("s", simulated(rng, judge, parts, design), library_name=by) for _ in range(draws)]


def many(pool: Executor, draws: int, judge: Judge, parts: int, design: str, by: str, seed: int) -> list[Corrections]:
    """All simulations of a line."""
    sizes = [_AT_ONCE] * (draws // _AT_ONCE) + [draws % _AT_ONCE]
    tasks = [pool.submit(batch, judge, parts, design, by, (seed, n), size) for n, size in enumerate(sizes)]
    return [one for task in tasks for one in task.result()]


def simulations(pool: Executor, draws: int, by: str) -> Iterator[str]:
    """The table of simulated judges."""
    yield (
        f"## Simulated judges\n\nTwo agents, {QUESTIONS} questions, {LABELS} labels of both together. "
        "The truth is the agents' figure in the population of questions. Coverage is of 95 % "
        "intervals, widths are in points. *Worth*: the labels of one agent that alone would be as narrow, of 75. "
        "*Order*: how often the better agent has the higher figure.\n"
    )
    judged = ("judge", "score", "simulations", "by the judge", "corrected", "difference by the judge", "corrected")
    yield heading(*judged, "width", "of the difference", "worth", "order by the judge", "corrected")
    for name, parts, by_less in CELLS:
        made = many(pool, max(1, draws // by_less), JUDGES[name], parts, SAME, by, len(name))
        found = held(made, *truths(parts))
        yield row(
            name,
            "right or wrong" if parts == 1 else f"share of {parts}",
            f"{len(made):,}",
            f"{found.naive:.3f}",
            f"**{found.corrected:.3f}**",
            f"{found.naive_pair:.3f}",
            f"**{found.pair:.3f}**",
            f"{100 * found.width:.1f}",
            f"{100 * found.pair_width:.1f}",
            f"{found.worth:.0f}",
            f"{found.naive_order:.3f}",
            f"{found.order:.3f}",
        )


def designs(pool: Executor, draws: int, by: str) -> Iterator[str]:
    """The table of draws."""
    yield (
        "\n## Which answers to label\n\nThe lenient judge, right or wrong. The estimate knows the chance that each "
        f"draw gives; {draws:,} simulations a line. `judge sheet` draws the same questions of every agent.\n"
    )
    yield heading("drawn", "corrected", "difference corrected", "width", "of the difference", "worth")
    for design in (SAME, "each agent's own", "by the verdict, in proportion", "by the verdict, half equally"):
        made = many(pool, draws, JUDGES["lenient"], 1, design, by, 7)
        found = held(made, *truths(1))
        widths = (f"{100 * found.width:.1f}", f"{100 * found.pair_width:.1f}", f"{found.worth:.0f}")
        yield row(design, f"{found.corrected:.3f}", f"{found.pair:.3f}", *widths)


def words(text: str) -> set[str]:
    """The words of a text that are longer than three letters."""
    return {word for word in re.findall(r"[a-z]+", text.casefold()) if len(word) > 3}


def kqa(data: Path) -> tuple[list[tuple[str, str]], Floats, dict[str, Floats]]:
    """K-QA's statements (question and system), whether the majority of three physicians says that the answer entails
    them, and what judges say: three by the share of a statement's words that the answer has, and one physician."""
    with (data / "kqa/dataset/NLI_medical_annotator.csv").open(encoding="utf-8") as file:
        gold = [(row, majority([row[f"label_{n}"].casefold() for n in range(3)])) for row in csv.DictReader(file)]
    rows = [row for row, label in gold if label is not None]
    shared = [len(words(one["claim"]) & words(one["answer"])) / max(1, len(words(one["claim"]))) for one in rows]
    judges = {
        f"{name} of its words are in the answer": np.array([float(share >= least) for share in shared])
        for name, least in (("a quarter", 0.25), ("half", 0.5), ("three quarters", 0.75))
    }
    judges["the first physician"] = np.array([float(one["label_0"].casefold() == "entailment") for one in rows])
    person = np.array([float(label == "entailment") for _, label in gold if label is not None])
    return [(one["Question"], one["llm_x"]) for one in rows], person, judges


def labelled_rows(places: list[str], person: Floats, judge: Floats, chosen: NDArray[np.intp]) -> list[JudgedRow]:
    """Rows with people's labels of the chosen ones."""
    some = set(chosen.tolist())
    return [
        JudgedRow(
            question=f"{place}#{n}",
            cluster=place,
            judge=float(judge[n]),
            person=float(person[n]) if n in some else None,
        )
        for n, place in enumerate(places)
    ]


def between(one: Estimate | Corrected | None, form: str = ".1f") -> str:
    """A figure in percent, with its interval."""
    if one is None or one.low is None or one.high is None:
        return "-"
    return f"{100 * one.value:{form}} ({100 * one.low:{form}} to {100 * one.high:{form}})"


def share_held(found: Sequence[Estimate | Corrected], truth: float) -> str:
    """In how many the interval holds the truth."""
    return f"{np.mean([one.low <= truth <= one.high for one in found]):.3f}"


def physicians(data: Path, draws: int, by: str) -> Iterator[str]:
    """K-QA: the share of statements that answers entail."""
    places, person, judges = kqa(data)
    truth, names = float(person.mean()), [place for place, _ in places]
    yield (
        f"\n## K-QA: {len(person)} statements that three physicians labelled\n\nThe figure is the share of statements "
        f"that the answer entails, by the majority of physicians: {100 * truth:.1f} %. {LABELS} of their labels are "
        f"shown, drawn {draws:,} times; the others are held back. Statements of one question are a cluster.\n"
    )
    yield heading("judge", "its figure (95 %)", "holds", "corrected, mean", "holds", "width", "worth")
    rng = np.random.default_rng(1)
    for name, judge in judges.items():
        made = []
        for _ in range(draws):
            rows = labelled_rows(names, person, judge, rng.choice(len(person), LABELS, replace=False))
            made.append(correct("s", {"k": rows}, library_name=by).figures[0])
        naive, fixed = made[0].judge, [one.corrected for one in made if one.corrected]
        yield row(
            name,
            between(naive),
            "yes" if naive and share_held([naive], truth) == "1.000" else "no",
            f"{100 * np.mean([one.value for one in fixed]):.1f}",
            share_held(fixed, truth),
            f"{100 * np.mean([one.high - one.low for one in fixed]):.1f}",
            f"{np.mean([one.effective for one in made]):.0f}",
        )
    yield (
        "\nThe four systems answered different questions. Their figures by all physicians' labels, by the judge of "
        "three quarters of the words, and corrected by half of the labels of each:\n"
    )
    yield heading("system", "statements", "physicians", "judge", "corrected (95 %)")
    rng, judge = np.random.default_rng(2), judges["three quarters of its words are in the answer"]
    for system, count in sorted(Counter(system for _, system in places).items()):
        own = np.array([n for n, (_, of) in enumerate(places) if of == system])
        chosen = rng.choice(count, count // 2, replace=False)
        rows = labelled_rows([names[n] for n in own], person[own], judge[own], chosen)
        (figure,) = correct("s", {system: rows}, library_name=by).figures
        shown = between(figure.corrected) if figure.corrected else figure.why
        yield row(system, count, f"{100 * person[own].mean():.1f}", f"{100 * judge[own].mean():.1f}", shown)


POSITIVE = re.compile(r"\b(increas|promot|activat|induc|enhanc|improv|high)", re.IGNORECASE)


def claims(data: Path, draws: int, by: str) -> Iterator[str]:
    """SciFact: two models' order by a judge that shares one's habit."""
    rows = [json.loads(line) for line in (data / "scifact/claims_train.jsonl").read_text().splitlines()]
    stated = {
        one["claim"]: Counter(each["label"] for of in one["evidence"].values() for each in of).most_common(1)[0][0]
        for one in rows
        if one["evidence"]
    }
    support = np.array([float(label == "SUPPORT") for label in stated.values()])
    cue = np.array([float(bool(POSITIVE.search(claim))) for claim in stated])
    right = {"first": support, "second": (support == cue).astype(float)}
    judge = {"first": cue, "second": np.ones_like(cue)}
    names, gap = list(stated), float(right["second"].mean() - right["first"].mean())
    rng, pairs = np.random.default_rng(3), []
    for _ in range(draws):
        chosen = rng.choice(len(names), LABELS // 2, replace=False)
        runs = {model: labelled_rows(names, right[model], judge[model], chosen) for model in right}
        pairs.append(correct("s", runs, library_name=by).differences[0])
    fixed = [pair.corrected for pair in pairs if pair.corrected]
    same = np.mean([np.sign(one.value) == np.sign(gap) for one in fixed])
    sure = np.mean([one.low > 0 or one.high < 0 for one in fixed])
    yield (
        f"\n## SciFact: the order of two models on {len(names)} claims with evidence\n\nThe first model finds every "
        "claim supported, the second those with a word of increase; the judge takes the second's rule for the truth. "
        "SciFact's annotators say which answers are right; the corrected figures see their labels of "
        f"{LABELS // 2} claims, drawn {draws:,} times.\n"
    )
    yield heading("by", "first", "second", "difference (95 %)")
    yield row("all annotations", *(f"{100 * of.mean():.1f}" for of in right.values()), f"{100 * gap:+.1f}")
    yield row("the judge", *(f"{100 * of.mean():.1f}" for of in judge.values()), between(pairs[0].judge, "+.1f"))
    yield row("corrected, the first draw", "", "", between(fixed[0], "+.1f"))
    yield (
        f"\nOver the draws the corrected difference is {100 * np.mean([one.value for one in fixed]):+.1f} on average, "
        f"its interval holds the truth in {share_held(fixed, gap)}, its order is the annotators' in {same:.3f}, and "
        f"the interval leaves 0 out in {sure:.3f}."
    )


def people(data: Path, draws: int, by: str) -> Iterator[str]:
    """The sections on people's own labels."""
    if by == "cje-eval":  # the other takes the statements of an answer as independent
        yield from physicians(data, draws, by)
    yield from claims(data, draws, by)


def main(data: Path, draws: int, by: str) -> None:
    """Measure, and write the page."""
    begun = time.monotonic()
    library = correct(
        "s", {"a": simulated(np.random.default_rng(0), JUDGES["lenient"], 1, "")["a"]}, library_name=by
    ).by
    page = Path(__file__).with_name("corrected_judging.md" if by == "cje-eval" else "corrected_judging_glide.md")
    lines: list[str] = []
    with ProcessPoolExecutor(3) as pool:
        parts = (simulations(pool, draws, by), people(data, max(1, draws // 20), by), designs(pool, draws // 10, by))
        for line in chain(*parts):
            lines.append(line)
            took, command = time.monotonic() - begun, f"python perf/corrected_judging.py DATA {draws} {by}"
            head = (
                f"# Judged figures, corrected by people's labels\n\n`{command}` ({date.today():%-d %B %Y}; {library}; "
                f"{took:.0f} s). Wanted: coverage of at least .93 with 150 labels where the judge's own interval "
                "covers about 0.\n"
            )
            page.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int((sys.argv[2:] or ["1000"])[0]), (sys.argv[3:] or ["cje-eval"])[0])
