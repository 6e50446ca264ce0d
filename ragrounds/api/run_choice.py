"""Which runs are meant where a name fits several: those on the same questions, else one is to be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.api.workspace import open_store, user_settings
from ragrounds.errors import UserError
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.settings import Settings
from ragrounds.ui.run_tables import told_apart


class RunChoice(Struct, frozen=True, kw_only=True):
    """What a reference to a run means."""

    reference: str
    fitting: tuple[RunOverview, ...]
    """The runs that it may mean, the newest first; one: that is meant."""
    of: int
    """Runs that have this name; those on other questions than the runs named beside it do not fit."""

    @property
    def run(self) -> str:
        """The id of the run that is meant; empty: several fit."""
        return self.fitting[0].run.id if len(self.fitting) == 1 else ""


def run_choices(
    references: Sequence[str],
    picked: Mapping[int, str] | None = None,
    *,
    newest: bool = False,
    settings: Settings | None = None,
) -> list[RunChoice]:
    """What references mean that are given together: as the runs are to be compared, those on questions that all of them
    have answered.

    Args:
        references: ids, beginnings of ids, agents' texts, or names.
        picked: place of a reference → the id of the run that was chosen for it.
        newest: of several that fit the newest is meant.
        settings: of the store; ``None``: the user's.

    Raises:
        UserError: a reference to no run.
    """
    with open_store(settings or user_settings()) as store:
        named = _named(store, references, picked or {})
        fitting = _on_the_same(named)
        if newest:
            fitting = _on_the_same([found[-1:] if len(found) > 1 else found for found in fitting])
        names = kept_names(store.engine)
        return [
            RunChoice(
                reference=reference, fitting=tuple(run_overviews(store, found[::-1], names)), of=len(every)
            )
            for reference, found, every in zip(references, fitting, named, strict=True)
        ]  # fmt: skip


def _named(store: Store, references: Sequence[str], picked: Mapping[int, str]) -> list[list[Run]]:
    runs = store.runs()
    by_id = {run.id: run for run in runs}
    wanted = [picked.get(place, reference) for place, reference in enumerate(references)]
    return [[by_id[one]] if one in by_id else store.fitting(one, runs) for one in wanted]


def _on_the_same(named: Sequence[Sequence[Run]]) -> list[list[Run]]:
    """Of each name's runs those on questions that every name has a run on, where there are such."""
    shared = set.intersection(*({run.questions for run in found} for found in named)) if named else set()
    return [[run for run in found if run.questions in shared] or list(found) for found in named]


def several_fit(choice: RunChoice) -> UserError:
    """The error of a reference that fits several runs, with what tells them apart."""
    listed = "; ".join(told_apart(choice.fitting))
    return UserError(
        f"{choice.reference!r} fits {len(choice.fitting):,} runs: {listed}. Name one by its id, or "
        "say --latest for the newest."
    )
