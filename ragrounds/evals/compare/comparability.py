"""What runs may be compared on: the same questions, the same epochs, the same scorers; or a refusal with its reason.

With `common`, the comparison is made on the part that all runs share, and a note says what that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.compare.figures import scorer_values
from ragrounds.evals.scorers import described, scorers_for
from ragrounds.evals.scorers.ragas import RAGAS
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Gold, Question, Run, Score

LOWER_IS_BETTER = frozenset({"contradiction"})
"""Scorers whose score is a fault: there is no frontier of them, and no price of one more."""
SHOWN = (
    "mirage",
    "strict",
    "facts",
    "triplets",
    "equivalent",
    "comprehensiveness",
    "contradiction",
    *(scorer.name for scorer in RAGAS),
)
"""Scorers that tables show where none is named; the others stand in ``--json`` or are named with ``--scorer``."""


def shown_scorers(datasets: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The scorers to show where none is named, of those given with the datasets that they score: the usual ones, and
    any other whose questions none of the usual ones scores. One without a dataset has nothing to show."""
    scoring = {name: tuple(found) for name, found in datasets.items()}
    covered = {(_kind(name), dataset) for name, found in scoring.items() if name in SHOWN for dataset in found}
    return tuple(
        name
        for name, found in scoring.items()
        if any(name in SHOWN or (_kind(name), dataset) not in covered for dataset in found)
    )


def computed(scorer: str) -> bool:
    """Whether a scorer's scores are computed: such a score has no value where a question has nothing to score by
    (``facts`` without listed facts). A judge's score without a value is a failure of the judge."""
    return not described(scorer).needs_judge


def in_order(scorers: Collection[str]) -> list[str]:
    """These scorers with the usual ones first. Where one is to be chosen, it is the first."""
    return [name for name in SHOWN if name in scorers] + sorted(name for name in scorers if name not in SHOWN)


def outcome_scorers(datasets: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Of these scorers those whose outcomes count every answer once: for choices strict before the published one,
    which hides them."""
    order = sorted(datasets, key=lambda name: name != "strict")
    kept: list[str] = []
    counted: set[tuple[str, str]] = set()
    for name in order:
        mine = {(_kind(name), dataset) for dataset in datasets[name]}
        if mine - counted:
            kept.append(name)
            counted |= mine
    return tuple(kept)


def _kind(scorer: str) -> str:
    """What kind of question a scorer is for."""
    return described(scorer).kinds[0]


class ComparisonBasis(Struct, frozen=True, kw_only=True):
    """What is compared, and everything that was read of it."""

    questions: tuple[Question, ...]
    epochs: int
    scorers: tuple[str, ...]
    summaries: dict[str, list[Attempt]]
    """Run id → its attempts at these questions in these epochs, without texts."""
    scores: dict[str, dict[str, list[Score]]]
    """Run id → scorer → scores of these attempts."""
    notes: tuple[str, ...]

    def asked(self, scorer: str) -> list[Question]:
        """The questions that a scorer is for: those that any run has a score for, and those that it would score,
        whether an attempt was made or not. The denominator is every question."""
        scored = {score.question_id for found in self.scores.values() for score in found.get(scorer, ())}
        usual = {one.id for one in self.questions if scorer in {made.name for made in scorers_for(one)}}
        known = described(scorer)
        if not usual and not known.needs_judge:  # a scorer that is only used when it is asked for
            usual = {question.id for question in self.questions if known.suits(question)}
        wanted = scored | usual
        return [question for question in self.questions if question.id in wanted]

    def values(self, scorer: str, run: Run, asked: Sequence[Question]) -> tuple[dict[str, float | None], int]:
        """Each question's mean score over epochs, and how many answers nobody scored. No score is not a wrong answer:
        the value of such a question is missing, as where a judge failed."""
        scores = self.scores[run.id].get(scorer, [])
        values = scorer_values(asked, scores, self.epochs)
        read = {(score.question_id, score.epoch) for score in scores}
        unscored = [
            attempt.question_id
            for attempt in self.summaries[run.id]
            if attempt.status == "completed"
            and attempt.question_id in values
            and (attempt.question_id, attempt.epoch) not in read
        ]
        return values | dict.fromkeys(unscored), len(unscored)


def comparison_basis(
    store: Store, runs: Sequence[Run], wanted: Sequence[str], common: bool, answered: bool = False
) -> ComparisonBasis:
    """Find what these runs can be compared on. With `common` or `answered` that is what all of them have answered.

    Raises:
        UserError: no runs, one named twice, or runs whose questions, epochs or scorers differ, where `common` is not
            set; a scorer that nothing was scored by.
    """
    if not runs:
        raise UserError("No run was named. See `ragrounds runs ls`.")
    for run in runs:
        if [other.id for other in runs].count(run.id) > 1:
            raise UserError(f"The run {run.id} is named twice; name each run once.")
    questions, notes = common_questions(store, runs, common)
    epochs = _epochs(runs, common, notes)
    ids = {question.id for question in questions}
    summaries = {
        run.id: [one for one in store.summaries(run) if one.question_id in ids and one.epoch < epochs] for run in runs
    }
    if common or answered:
        questions = _answered(questions, epochs, summaries, notes)
        ids = {question.id for question in questions}
        summaries = {id: [one for one in found if one.question_id in ids] for id, found in summaries.items()}
    scores: dict[str, dict[str, list[Score]]] = {run.id: {} for run in runs}
    for run in runs:
        for score in store.scores(run):
            if score.question_id in ids and score.epoch < epochs:
                scores[run.id].setdefault(score.scorer, []).append(score)
    return ComparisonBasis(
        questions=tuple(questions),
        epochs=epochs,
        scorers=tuple(_scorers(runs, wanted, summaries, scores, common, notes)),
        summaries=summaries,
        scores=scores,
        notes=tuple(notes),
    )


def common_questions(store: Store, runs: Sequence[Run], common: bool) -> tuple[list[Question], list[str]]:
    """The questions that all runs answer, in the first run's order, and notes on what was left out.

    Raises:
        UserError: the runs' questions differ and `common` is not set, or none is shared.
    """
    sets = {run.questions: run for run in runs}
    first, golds = store.questions(runs[0])
    if len(sets) == 1:
        return first, []
    if not common:
        told = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(
            f"These runs answer different questions ({told}). Compare runs on the same questions, or set --common to "
            "compare on those that all of them have."
        )
    shared = {question.id: _content(question, golds[question.id]) for question in first}
    changed: set[str] = set()
    for run in sets.values():
        others, other_golds = store.questions(run)
        contents = {question.id: _content(question, other_golds[question.id]) for question in others}
        changed |= {id for id in shared if id in contents and contents[id] != shared[id]}
        shared = {id: content for id, content in shared.items() if contents.get(id) == content}
    kept = [question for question in first if question.id in shared]
    if not kept:
        raise UserError("These runs have no question in common.")
    notes = [f"Compared on the {len(kept):,} questions that all runs have."]
    if changed:
        notes.append(f"{len(changed):,} questions have the same id but another text or answer; they are left out.")
    return kept, notes


def _answered(
    questions: list[Question], epochs: int, summaries: Mapping[str, Sequence[Attempt]], notes: list[str]
) -> list[Question]:
    """The questions that every run has made all its attempts at."""
    made = [Counter(attempt.question_id for attempt in found) for found in summaries.values()]
    kept = [question for question in questions if all(counts[question.id] >= epochs for counts in made)]
    if not kept:
        raise UserError("There is no question that all these runs have answered yet.")
    if len(kept) < len(questions):
        notes.append(f"{len(questions) - len(kept):,} questions that some run has not answered yet are left out.")
    return kept


def _content(question: Question, gold: Gold) -> tuple[object, ...]:
    """What must be equal for two answers to be answers to the same question."""
    return question.text, tuple(question.options.items()), question.kind, gold.answer, gold.documents, gold.facts


def _epochs(runs: Sequence[Run], common: bool, notes: list[str]) -> int:
    least = min(run.epochs for run in runs)
    if all(run.epochs == least for run in runs):
        return least
    if not common:
        told = "; ".join(f"{run.id}: {run.epochs}" for run in runs)
        raise UserError(
            f"These runs ask every question a different number of times (epochs: {told}). Compare runs of the same "
            f"epochs, or set --common to compare on the first {least} of each."
        )
    notes.append(f"Compared on the first {least} epochs of each run.")
    return least


def _scorers(
    runs: Sequence[Run],
    wanted: Sequence[str],
    summaries: Mapping[str, Sequence[Attempt]],
    scores: Mapping[str, Mapping[str, Sequence[Score]]],
    common: bool,
    notes: list[str],
) -> list[str]:
    present = list(dict.fromkeys(scorer for run in runs for scorer in scores[run.id]))
    valued = {
        name for found in scores.values() for name, made in found.items() if any(s.value is not None for s in made)
    }
    # Where one scorer is to be chosen it is the first: not one that had nothing to score by.
    order = sorted(in_order(present), key=lambda name: computed(name) and name not in valued)
    kept: list[str] = []
    for name in wanted or order:
        if name not in present:
            raise UserError(
                f"No run has scores under {name!r}, only {', '.join(order) or 'none'}. "
                f"{_command(name, [run.id for run in runs])} makes them, where {name!r} fits the questions."
            )
        lacking = [run.id for run in runs if _lacks(name, run, summaries, scores)]
        if lacking and (wanted or not common):
            others = "" if wanted else ", or set --common to compare under the scorers that all runs have"
            raise UserError(
                f"These runs were scored by different scorers: {', '.join(lacking)} has no scores under {name!r}. "
                f"{_command(name, lacking)} makes them{others}."
            )
        if lacking:
            notes.append(f"Not compared under {name}: {', '.join(lacking)} has no scores by it.")
        else:
            kept.append(name)
    if order and not kept:
        raise UserError("These runs have no scorer in common. `ragrounds score` scores them again, without a model.")
    return kept


def _command(scorer: str, runs: Sequence[str]) -> str:
    """The command that makes scores under a scorer."""
    return f"`{described(scorer).command(runs)}`"


def _lacks(
    scorer: str,
    run: Run,
    summaries: Mapping[str, Sequence[Attempt]],
    scores: Mapping[str, Mapping[str, Sequence[Score]]],
) -> bool:
    """Whether a run answered questions that others have scores for under a scorer, and has none itself. A run that
    has not come to those questions yet lacks nothing: it counts as not correct there."""
    if scorer in scores[run.id]:
        return False
    asked = {score.question_id for by_scorer in scores.values() for score in by_scorer.get(scorer, ())}
    return any(attempt.status == "completed" and attempt.question_id in asked for attempt in summaries[run.id])
