"""Results with a comparison: their tables, their figures as frames, their pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console

from ragrounds.api.frames import FIGURES, OF_RUNS, PAIRS, Frame, Part, Row
from ragrounds.api.results import RunsResult
from ragrounds.api.workspace import open_selected_runs
from ragrounds.evals.analyses.pictures import Picture
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.comparison_pictures import COMPARISON_PICTURES
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.tables.comparison_tables import print_comparison
from ragrounds.ui.tables.notebook import text_of


class ComparisonResult(RunsResult, frozen=True, kw_only=True):
    """Result with a comparison: its tables, and their figures as frames."""

    comparison: Comparison

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the compared runs."""
        return tuple(row.run for row in self.comparison.rows)

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the comparison on one screen; with `full`, every table, test and note."""
        print_comparison(self.comparison, self.by_scorers(), console, full=full)

    def full(self) -> str:
        """Return every table, test and note as text."""
        return text_of(partial(self.draw, full=True))

    def by_scorers(self) -> Sequence[str]:
        """Return the requested scorers; if empty, the headlines are shown."""
        return ()

    def by_scorer(self) -> str:
        """Return the scorer of the pictures; empty for the first headline."""
        return next(iter(self.by_scorers()), "")

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the pictures of scores, differences, cost, datasets, and gold search by search."""
        pictures = {
            name: PictureMaker(partial(picture.draw, self.comparison, self.by_scorer()), picture.lacking)
            for name, picture in COMPARISON_PICTURES.items()
        }
        return {**pictures, "hops": PictureMaker(self._hops, "no attempt of these runs searched more than once")}

    def _hops(self) -> Picture | None:
        # Imported here, since it reads the results of searches, with all modules that this needs.
        from ragrounds.evals.analyses.gold_by_hop import hop_profile

        with open_selected_runs(self.ids, self.settings) as (store, runs):
            return hop_profile(store, runs, agent_names(self.comparison))

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of figures and pairs, and the frames of the runs."""
        return (FIGURES, PAIRS, *OF_RUNS)

    def own_rows(self, frame: Frame) -> Iterable[Part] | None:
        """Return the rows of the figures or the pairs."""
        if frame is FIGURES:
            return [list(_figure_rows(self.comparison))]
        return [list(_pair_rows(self.comparison))] if frame is PAIRS else None


def _figure_rows(comparison: Comparison) -> Iterator[Row]:
    totals = {row.run: row for row in comparison.rows}
    in_tables = [
        (scorer_table, not index)
        for table, next_to in comparison.shown_tables()
        for index, scorer_table in enumerate((table, *next_to))
    ]
    seen = set()
    # Scorers that no table shows come last: the pairs have them too.
    for table, headline in [*in_tables, *((scorer_table, False) for scorer_table in comparison.tables)]:
        if table.scorer in seen:
            continue
        seen.add(table.scorer)
        for line in table.lines:
            row = totals[line.run]
            yield FIGURES.cells(line.overall, row, scorer=table.scorer, headline=headline, name=row.name or row.agent)


def _pair_rows(comparison: Comparison) -> Iterator[Row]:
    names = {row.run: row.name or row.agent for row in comparison.rows}
    for table in comparison.tables:
        for pair in table.pairs:
            pair_names = {"first_name": names[pair.first], "second_name": names[pair.second]}
            yield PAIRS.cells(pair, pair.tests, scorer=table.scorer, **pair_names)
