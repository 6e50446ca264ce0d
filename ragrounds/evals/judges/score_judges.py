"""Whose verdicts the scores of a run rest on: the last judge's, or the last panel's.

Scores hold no judge. Where one judge alone was asked about a run it is that one. Of several, the recorded replies are
read again, and the judge, or the panel, is looked for whose verdicts are those in the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from ragrounds.evals.judges.methods import by_panel, find_method
from ragrounds.evals.judges.recorded import RecordedVerdicts, recorded_verdicts
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.stats import majority
from ragrounds.evals.store.store import Store
from ragrounds.records import Run

_LARGEST = 8
"""Judges up to which every panel of them is tried."""
_READ = 500
"""Questions whose recorded replies are read again: enough to tell judges apart."""


class ScoreJudges(Struct, frozen=True):
    """Who gave the verdicts behind scores."""

    judges: tuple[str, ...]
    """One, or the members of a panel; where it is not `known`, those that it may have been."""
    panel: bool = False
    """The majority of `judges` counts."""
    known: bool = True
    """Whether the store tells who it was. It does not where several judges said the same of everything, or where their
    replies cannot be read any more."""


class JudgeFinder:
    """Finds who gave the verdicts behind the scores of runs; of each way of judging a run once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[str, str], ScoreJudges | None] = {}

    def __call__(self, run: Run, scorer: str) -> ScoreJudges | None:
        """Whose verdicts a run's scores under a scorer rest on; ``None``: it needs no judge, or none was asked."""
        judged = described(scorer)
        if not isinstance(judged, JudgedScorer):
            return None
        key = (run.id, judged.judging)
        if key not in self._found:
            self._found[key] = self._judges(run, judged.judging)
        return self._found[key]

    def _judges(self, run: Run, kind: str) -> ScoreJudges | None:
        asked, method = tuple(self._store.judges(run)), find_method(kind)
        if not asked:
            return None
        if not isinstance(method, LabelMethod):
            return ScoreJudges(asked, known=len(asked) == 1)
        return _verdict_judges(self._store, run, method, asked)


def _verdict_judges(store: Store, run: Run, method: LabelMethod, asked: Sequence[str]) -> ScoreJudges:
    """Whose verdicts of a kind that is labels the scores hold; `asked` are all whose replies about the run are kept."""
    panel = by_panel(store, run, method)
    if len(asked) == 1 and not panel:
        return ScoreJudges(tuple(asked))
    scores = store.scores(run, method.scorers[-1].name)
    epoch = min((score.epoch for score in scores), default=0)
    given = {score.question_id: method.verdicts(score) for score in scores if score.epoch == epoch}
    read = sorted(given, key=lambda question: not any(given[question].values()))[:_READ]  # with a verdict first
    held = {item: label for question in read for item, label in given[question].items()}
    recorded = recorded_verdicts(store, run, method, epoch, set(read))
    said = [one for one in recorded if any(one.verdicts.values())]
    groups = [(one,) for one in said] if not panel else _panels(said)
    found = _nearest(held, groups)
    if len(found) == 1:
        return ScoreJudges(tuple(one.judge for one in found[0]), panel=panel)
    # Two that said the same of everything, or nothing that fits: those that it may have been.
    names = dict.fromkeys(one.judge for group in (found or groups) for one in group)
    return ScoreJudges(tuple(names) or tuple(asked), panel=panel, known=False)


def _panels(said: Sequence[RecordedVerdicts]) -> list[tuple[RecordedVerdicts, ...]]:
    if len(said) > _LARGEST:
        return [tuple(said)]
    return [group for size in range(2, len(said) + 1) for group in combinations(said, size)]


def _nearest(
    held: Mapping[str, str | None], groups: Sequence[tuple[RecordedVerdicts, ...]]
) -> list[tuple[RecordedVerdicts, ...]]:
    """The groups that say every verdict in the scores; of these, the ones that say least where the scores have none."""
    fitting: list[tuple[int, tuple[RecordedVerdicts, ...]]] = []
    for group in groups:
        items = {item for one in group for item in one.verdicts}
        voted = {item: majority([one.verdicts.get(item) for one in group]) for item in items}
        # An answer without a text was put to nobody, so that nobody said the verdict that its scores may hold.
        if items and all(voted[item] == held.get(item) for item in items if held.get(item) is not None):
            fitting.append((sum(voted[item] is not None and held.get(item) is None for item in items), group))
    least = min((more for more, _ in fitting), default=0)
    return [group for more, group in fitting if more == least]
