"""One run, one figure: every list, screen, file and verdict shows the same, whatever the run's design and gaps are."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

import ragrounds as rr
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.scorers import known_scorer, scorer_code
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_csv import as_csv
from ragrounds.ui.tables.comparison_tables import score_table
from ragrounds.ui.tables.one_screen import summary_table
from ragrounds.ui.tables.run_tables import runs_table
from ragrounds.ui.trace.home import HomeScreen
from tests.compare import test_corpus_figures
from tests.conftest import Cli
from tests.ui.trace.seeing import current, press, viewer

VALUES = {"right": 1.0, "wrong": 0.0, "no value": None}
"""Outcome of an attempt → its score. "failed" and "score lost" attempts have none, "not run" ones are not stored.

A lost score is computed again from the answer, which is right, when the run is opened."""
OPTIONS = {"A": "yes", "B": "no"}
FEW = 10
"""Finished questions of each dataset from which an unfinished run has a mean over datasets."""


class Design(Struct, frozen=True, kw_only=True):
    """Run made up by hand."""

    datasets: tuple[str, ...]
    """Dataset of each question."""
    clusters: tuple[str, ...]
    """Cluster of each question; empty: none."""
    outcomes: tuple[tuple[str, ...], ...]
    """Outcomes of each question, epoch by epoch."""

    @property
    def epochs(self) -> int:
        return len(self.outcomes[0])

    def value(self, index: int) -> float | None:
        """Return the mean score of a question over its epochs; ``None`` if one of its answers has no score."""
        outcomes = self.outcomes[index]
        if "no value" in outcomes:
            return None
        return sum(outcome in ("right", "score lost") for outcome in outcomes) / self.epochs

    def mean(self, finished: bool = False) -> float | None:
        """Return the mean over datasets by a pencil, of all questions or of the finished ones.

        Finished ones are pooled while a dataset has few of them.
        """
        indices = [i for i, outcomes in enumerate(self.outcomes) if not finished or "not run" not in outcomes]
        counts = {name: sum(self.datasets[i] == name for i in indices) for name in self.datasets}
        pooled = finished and any(counts[name] < min(FEW, self.datasets.count(name)) for name in counts)
        by_dataset: dict[str, list[float]] = defaultdict(list)
        for i in indices:
            if (value := self.value(i)) is not None:
                by_dataset["" if pooled else self.datasets[i]].append(value)
        return fmean(map(fmean, by_dataset.values())) if by_dataset else None

    @property
    def is_scored(self) -> bool:
        return any(outcome in ("right", "wrong") for outcomes in self.outcomes for outcome in outcomes)

    @property
    def is_finished(self) -> bool:
        return not any("not run" in outcomes for outcomes in self.outcomes)


@st.composite
def designs(draw: st.DrawFn) -> Design:
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    datasets = tuple(
        f"x/{name}" for name, size in zip(("one", "two", "three"), sizes, strict=False) for _ in range(size)
    )
    epochs = draw(st.integers(1, 3))
    gaps = draw(st.sets(st.sampled_from(["failed", "not run", "score lost", "no value"])))
    outcome = st.sampled_from(["right", "wrong", "right", *sorted(gaps)])
    question = st.tuples(*[outcome] * epochs)
    return Design(
        datasets=datasets,
        clusters=tuple(draw(st.sampled_from(["", "", "a", "b"])) for _ in datasets),
        outcomes=tuple(draw(question) for _ in datasets),
    )


UNEVEN = Design(
    datasets=("x/one",) * 5 + ("x/two",) * 2,
    clusters=("a", "a", "a", "", "b", "", "c"),
    outcomes=(("right", "wrong"),) * 3
    + (("failed", "right"), ("right", "right"), ("wrong", "wrong"), ("right", "wrong")),
)
PARTIAL = Design(
    datasets=("x/one",) * 12 + ("x/two",) * 11,
    clusters=("",) * 23,
    outcomes=(("right",),) * 9 + (("wrong",), ("not run",), ("no value",)) + (("wrong",),) * 10 + (("score lost",),),
)
POOLED = Design(
    datasets=("x/one",) * 12 + ("x/two",) * 6,
    clusters=("",) * 18,
    outcomes=(("right",),) * (FEW - 1) + (("not run",),) * 3 + (("wrong",),) * 6,
)
EQUAL = Design(datasets=("x/one", "x/two") * 9, clusters=("",) * 18, outcomes=(("right",), ("wrong",), ("right",)) * 6)
FIXED = {"uneven": UNEVEN, "partial": PARTIAL, "equal": EQUAL}


def add(store: Store, name: str, design: Design) -> Run:
    """Store a run of this design."""
    questions = [
        Question(
            id=f"{dataset}/{i}", benchmark=dataset, cluster=cluster, text=f"{name} {i}?", options=OPTIONS,
        )
        for i, (dataset, cluster) in enumerate(zip(design.datasets, design.clusters, strict=True))
    ]  # fmt: skip
    golds = {question.id: Gold(question_id=question.id, answer="A") for question in questions}
    run = Run(
        id=f"{name}-run", agent=name, benchmark="x", questions=content_version(questions, golds), count=len(questions),
        epochs=design.epochs, fingerprint=name, identity={"models": {"model": "test:model"}}, created=1.0,
    )  # fmt: skip
    store.add_run(run, questions, golds)
    attempts, scores = [], []
    for question, outcomes in zip(questions, design.outcomes, strict=True):
        for epoch, outcome in enumerate(outcomes):
            if outcome == "not run":
                continue
            status = "failed" if outcome == "failed" else "completed"
            attempts.append(
                Attempt(run=run.id, question_id=question.id, epoch=epoch, status=status, text="A", cost_paid=0.1)
            )
            if outcome in VALUES:
                scores.append(
                    Score(
                        question_id=question.id, epoch=epoch, scorer="robust", value=VALUES[outcome],
                        answer_status="answered", code=scorer_code(known_scorer("robust")),
                    )
                )  # fmt: skip
    store.add_attempts(run, attempts, scores)
    refresh_scores(store, run)
    return run


def overall(comparison: Comparison) -> Figure:
    """The headline figure of a comparison of one run."""
    ((table, _),) = comparison.shown_tables()
    return table.lines[0].overall


def cell(heads: Sequence[str], row: Sequence[str], head: str) -> str:
    return dict(zip(heads, row, strict=True))[head]


@settings(max_examples=10)  # each takes 50 ms: two stores, a comparison and all its forms
@given(designs())
@example(UNEVEN)
@example(PARTIAL)
@example(POOLED)
@example(EQUAL)
def test_every_place_has_the_figure_by_a_pencil(design: Design) -> None:
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        run = add(store, "one", design)
        (overview,) = run_overviews(store, [run], {})
        if not design.is_scored:
            assert (overview.scorer, overview.score) == ("", None)
            return
        finished = design.mean(finished=True)
        assert overview.so_far is not design.is_finished
        assert overview.score == (None if finished is None else pytest.approx(finished))
        (listed,) = runs_table([overview], 1.0).rows
        shown = "-" if finished is None else f"{100 * overview.score:.2f}" + " so far" * (not design.is_finished)
        assert shown in listed
        compared = compare(store, [run])
        figure, expected = overall(compared), design.mean()
        if design.is_finished:
            assert figure.value == overview.score
        assert figure.value == (None if expected is None else pytest.approx(expected))
        assert {name: getattr(overview, name) for name in ("statuses", "cost_paid", "usage", "seconds", "made")} == {
            name: getattr(compared.rows[0], name) for name in ("statuses", "cost_paid", "usage", "seconds", "made")
        }
        check_forms(store, run, compared, figure)


def check_forms(store: Store, run: Run, compared: Comparison, figure: Figure) -> None:
    """Check that tables, CSV, frame and claim have this figure, and what a notebook shows."""
    ((table, _),) = compared.shown_tables()
    text, names = "-" if figure.value is None else f"{100 * figure.value:.2f}", {run.id: "one"}
    for rendered, head in (
        (summary_table(compared, [table], names), table.scorer),
        (score_table(table, names), "average" if len(table.lines[0].datasets) > 1 else ""),
    ):
        heads = [column.name for column in rendered.columns]
        assert cell(heads, rendered.rows[0], head or heads[1]) == text
    rows = csv.DictReader(io.StringIO(as_csv(compared)))
    (value,) = [row["value"] for row in rows if (row["figure"], row["part"]) == ("score", "")]
    assert value == ("" if figure.value is None else repr(figure.value))
    result = rr.compare(run.id, home=store.home)
    frame = result.to_pandas("figures")
    assert list(frame["value"].astype(object).where(frame["value"].notna(), None)) == [figure.value]
    if figure.value is not None:
        assert f">{text}<" in result._repr_html_()
        (claim,) = check_claims(store, [run], [f"score({run.id}) > {figure.value - 1e-6:.9f}"])
        assert claim.decision == "holds"
        assert claim.conditions[0].value == pytest.approx(figure.value)


def test_a_figure_of_a_whole_corpus_has_the_same_forms(store: Store, tmp_path: Path) -> None:
    replies = test_corpus_figures.replies(1, 1)
    run = test_corpus_figures.add(store, "one", replies)
    compared = compare(store, [run])
    figure = overall(compared)
    assert figure.value == pytest.approx(fmean(test_corpus_figures.expected(replies).values()))
    check_forms(store, run, compared, figure)
    check_report(store.home, tmp_path / "report.html", run.id, figure.value)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of each fixed design, and a second one on the same questions as the first."""
    folder = tmp_path_factory.mktemp("everywhere")
    with Store(folder) as store:
        for name, design in FIXED.items():
            add(store, name, design)
    return folder


def overviews(home: Path) -> Mapping[str, RunOverview]:
    with Store(home) as store:
        return {overview.run.agent: overview for overview in run_overviews(store, store.runs(), {})}


def test_the_command_lists_it(command: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))
    rows = json.loads(command("runs", "ls", "--json").stdout)["runs"]
    expected = {name: pytest.approx(design.mean(finished=True)) for name, design in FIXED.items()}
    assert {row["run"]["agent"]: row["score"] for row in rows} == expected
    lines = command("runs", "ls").stdout.splitlines()
    for name, overview in overviews(home).items():
        (line,) = [line for line in lines if line.startswith(f"{name}-run")]
        assert f" {100 * (overview.score or 0):.2f}" in line


@pytest.mark.parametrize("name", FIXED)
def test_the_report_shows_it(home: Path, tmp_path: Path, name: str) -> None:
    check_report(home, tmp_path / "report.html", f"{name}-run", FIXED[name].mean() or 0)


def check_report(home: Path, path: Path, run: str, value: float) -> None:
    page = rr.report(run, path, home=home).read_text(encoding="utf-8")
    abstract, results = (page.partition(f'<section id="{part}">')[2].partition("</section>")[0]
                         for part in ("abstract", "results"))  # fmt: skip
    figure = f"{100 * value:.2f}"
    assert f"{figure}\xa0%" in abstract
    assert f">{figure}<" in abstract
    assert f">{figure}<" in results


@pytest.mark.parametrize("name", ["equal", "uneven"])
def test_the_gate_measures_it(home: Path, tmp_path: Path, name: str) -> None:
    value = FIXED[name].mean() or 0.0
    policy = tmp_path / "policy.toml"
    policy.write_text(f'[runs]\nnew = "{name}-run"\n[critical]\n"near" = "accuracy(new) > {value:.9f}"\n')
    verdict = rr.gate(policy, home=home)
    assert (verdict.verdict, verdict.questions) == ("UNDECIDED", len(FIXED[name].datasets))
    assert verdict.rules[0].claim.conditions[0].value == pytest.approx(value)


async def test_the_home_screen_shows_it_folded_and_unfolded(home: Path) -> None:
    with Store(home) as store:
        async with viewer(store) as (app, pilot):
            screen = current(app, HomeScreen)
            for group in screen.groups:
                screen.rows.show(len(screen.lines), screen.lines.index((group, None)))
                await press(pilot, "right")
            for group in screen.groups:
                (run,) = group.runs
                value, low, high = screen._score(group, run)
                assert value == pytest.approx(FIXED[run.agent].mean(finished=True))
                assert value == screen.overviews[run.id].score
                if not screen.overviews[run.id].so_far:
                    figure = overall(compare(store, [run]))
                    assert (value, low, high) == (figure.value, figure.low, figure.high)
