"""Rankings of runs that answered the same questions, equally often, with the same headline scorer.

Runs with other questions, selections, epochs or headlines are never in one ranking. A place is a range that follows
from the corrected tests: a run that is behind two others, and that no test separates from three more, has the places
3 to 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run
from ragrounds.base.text import file_name
from ragrounds.evals.benchmarks.cards import TextLicence, text_licence
from ragrounds.evals.compare.abstract import Abstract, abstract, selection_words
from ragrounds.evals.compare.comparability import scorers_with_figures
from ragrounds.evals.compare.comparison import Comparison, ScorerTable, compare
from ragrounds.evals.compare.findings import ScorerFinding, conclusions, in_order, untested
from ragrounds.evals.compare.stopped_runs import early_stops
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.store import Store


class Place(Struct, frozen=True):
    """Range of places, from 1, that the tests leave open to a run."""

    first: int
    last: int


class Ranking(Struct, frozen=True, kw_only=True):
    """Runs that can be compared."""

    key: str
    """Short key for file names, made of the benchmark's name and the hash of its questions."""
    benchmark: str
    questions: str
    """Content hash of the questions and golds."""
    count: int
    epochs: int
    selection: str
    """Description of the selected part of the benchmark; empty for the whole."""
    claim: str
    """Claim that these runs were followed for, and that ended them; empty if no claim did."""
    runs: tuple[Run, ...]
    """Runs in the order of `comparison`: the best figure of the first headline first."""
    comparison: Comparison
    places: dict[str, dict[str, Place]]
    """Places of each run, by scorer and run id, if tests allow a statement."""
    licences: tuple[TextLicence, ...]
    """Licences of the datasets of the questions."""
    abstract: Abstract
    """Abstract: the systems, the conclusions, and what is missing."""

    @property
    def attempts(self) -> int:
        """Number of attempts that were made in all runs."""
        return sum(row.made for row in self.comparison.rows)


class LeftOutRuns(Struct, frozen=True):
    """Runs that are in no ranking."""

    runs: tuple[str, ...]
    why: str


class Rankings(Struct, frozen=True):
    """All rankings of some runs, and the runs that are in none."""

    rankings: tuple[Ranking, ...]
    left_out: tuple[LeftOutRuns, ...]


class _Key(Struct, frozen=True):
    """Key of a ranking: runs of equal keys are in one ranking."""

    questions: str
    epochs: int
    headlines: tuple[str, ...]
    claim: str


def rank(
    store: Store,
    runs: Sequence[Run],
    *,
    seed: int = 0,
    names: Mapping[str, str] | None = None,
    report: Callable[[str, int], None] = lambda phase, done: None,
) -> Rankings:
    """Group runs into rankings; rankings of one benchmark follow each other.

    Args:
        store: the store that has the runs.
        runs: each once.
        seed: seed of every bootstrap.
        names: run id → displayed name; ``None``: as the store keeps it.
        report: called with the number of runs that are compared.
    """
    questions = {run.questions: store.questions(run)[0] for run in {run.questions: run for run in runs}.values()}
    scorers, grouped = scorers_with_figures(store, runs), dict[_Key, list[Run]]()
    not_started: list[str] = []
    for run in runs:
        if all(status == "not_run" for status in store.done(run).values()):
            not_started.append(run.id)
            continue
        stop = early_stops(store, [run]).get(run.id)
        headlines = headline_of(questions[run.questions], scorers[run.id])
        key = _Key(
            run.questions,
            run.epochs,
            tuple(headline.scorer for headline in headlines),
            stop.state.claim if stop else "",
        )
        grouped.setdefault(key, []).append(run)
    left_out = [LeftOutRuns(tuple(not_started), "no attempt was made yet")] if not_started else []
    rankings, compared = list[Ranking](), 0
    # A ranking's key does not change if another run joins it.
    keys = {
        key: f"{file_name(members[0].benchmark, 40, '-', '-')}-{key.questions[:8]}-"
        f"{hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:6]}".lower()
        for key, members in grouped.items()
    }
    for key, members in sorted(
        grouped.items(), key=lambda entry: (entry[1][0].benchmark, -entry[1][0].count, keys[entry[0]])
    ):
        try:
            comparison = in_order(compare(store, members, seed=seed, names=names, shared_scorers=True))
        except UserError as error:
            left_out.append(LeftOutRuns(tuple(run.id for run in members), str(error)))
            continue
        rankings.append(_ranking(store, keys[key], key, members, comparison, questions[key.questions]))
        compared += len(members)
        report("runs compared", compared)
    return Rankings(tuple(rankings), tuple(left_out))


def _ranking(
    store: Store,
    name: str,
    key: _Key,
    runs: Sequence[Run],
    comparison: Comparison,
    questions: Sequence[Question],
) -> Ranking:
    by_id = {run.id: run for run in runs}
    ordered = tuple(by_id[row.run] for row in comparison.rows)
    ranking_abstract = abstract(store, ordered, comparison)
    findings = {finding.scorer: finding for finding in ranking_abstract.findings}
    datasets = dict.fromkeys(question.benchmark for question in questions)
    return Ranking(
        key=name,
        benchmark=runs[0].benchmark,
        questions=key.questions,
        count=runs[0].count,
        epochs=key.epochs,
        selection=selection_words(runs[0]),
        claim=key.claim,
        runs=ordered,
        comparison=comparison,
        places={
            table.scorer: places_by_run
            for table in comparison.headline_tables()
            if table.scorer in findings and (places_by_run := open_places(table, findings[table.scorer]))
        },
        licences=tuple(text_licence(dataset) for dataset in datasets),
        abstract=ranking_abstract,
    )


def open_places(table: ScorerTable, finding: ScorerFinding) -> dict[str, Place]:
    """Return the places that the corrected tests of a table leave open to each run; empty if nothing was tested.

    A conclusion that unfinished attempts could reverse is ignored.
    """
    if not table.pairs or untested(table):
        return {}
    tested = [line.run for line in table.lines]
    settled_conclusions = [conclusion for conclusion in conclusions(table) if conclusion not in finding.open]
    ahead = {run: sum(conclusion.worse == run for conclusion in settled_conclusions) for run in tested}
    behind = {run: sum(conclusion.better == run for conclusion in settled_conclusions) for run in tested}
    return {run: Place(1 + ahead[run], len(table.lines) - behind[run]) for run in tested}
