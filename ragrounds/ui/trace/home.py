"""Home screen: benchmarks and their runs with scores, costs and progress; it opens lists of attempts.

Figures are those of a comparison. They are computed in a thread when a benchmark is unfolded. Unfinished runs are shown
with their figures so far, which are read again after every change of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Static

from ragrounds.base.errors import UserError
from ragrounds.base.records import OUTCOMES, Run
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable, compare
from ragrounds.evals.compare.figures import QuestionCost
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.columns import Column, visible_columns
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import NO_FRONTIER, frontier_picture
from ragrounds.ui.tables.one_screen import conclusion_lines, cost_columns, run_costs
from ragrounds.ui.text import age, ends, in_scale, number_of, one_line
from ragrounds.ui.trace.attempt_list import agent_cell
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.view import ReadingPace, answer
from ragrounds.ui.trace.widgets import Rows

_SCORE = (("score", 9), ("95 %", 9))
"""First columns at the right: heading, cells. Those of costs follow."""
_COST = 11
"""Cells of a column of costs."""
_WIDE = 100
"""Cells of a screen from which it has all columns of costs."""
_OTHER_LINES = 9
"""Lines of a screen around the list's rows and the frontier."""
_NAME = 34
"""Maximal cells of an agent's name."""


class RunGroup(Struct):
    """Runs on the same questions."""

    runs: list[Run] = []
    names: dict[str, str] = {}
    """Run id → name of the run here, safe to show."""
    comparison: Comparison | None = None
    costs: dict[str, QuestionCost] = {}
    """Run id → costs of the run in the comparison."""
    trouble: str = ""
    """Reason why the runs cannot be compared; empty if they can."""
    folded: bool = True

    @property
    def table(self) -> ScorerTable | None:
        """Figures of the runs under the headline scorer."""
        return next(iter(self.comparison.headline_tables()), None) if self.comparison else None

    def line(self, run: Run) -> RunFigures | None:
        """Return the figures of a run under the headline scorer; ``None`` if it has none."""
        table = self.table
        return next((line for line in table.lines if line.run == run.id), None) if table else None


class HomeScreen(Screen[int | None]):
    """Screen with every run of a store, grouped by questions.

    Args:
        store: store of the runs.
        opens: opens some runs in a view, with a filter.
    """

    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012 (as Screen declares it)
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012
    DEFAULT_CSS = """
    HomeScreen {
        & #runs-pane { height: 1fr; width: 3fr; }
        & Rows { height: 1fr; border: round $border-blurred; &:focus { border: round $accent; } }
        & #about { height: auto; max-height: 7; padding: 0 1; }
        & #frontier { height: auto; padding: 0 1; border: round $border-blurred; display: none; }
        &.-high #frontier, &.-wide #frontier { display: block; }
        &.-narrow #body { layout: vertical; }
        &.-narrow #runs-pane { width: 100%; }
        &.-wide #frontier { width: 2fr; height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pick", "Pick", id="home.pick"),
        Binding("c", "view('compare')", "Where they differ", id="home.compare"),
        Binding("left,h", "fold(True)", "Fold", id="home.fold", show=False),
        Binding("right,l", "fold(False)", "Unfold", id="home.unfold", show=False),
        Binding("escape", "clear", "Pick none", id="home.clear", show=False),
    ]

    def __init__(self, store: Store, opens: Callable[[Sequence[Run], str, str], None]) -> None:
        super().__init__()
        self.store, self.store_watch, self._opens = store, ChangeWatch(store.engine), opens
        self.groups: list[RunGroup] = []
        self.overviews: dict[str, RunOverview] = {}
        self.picked: list[str] = []
        """Ids of picked runs of one group, in the order of picking."""
        self.lines: list[tuple[RunGroup, Run | None]] = []
        self._pace = ReadingPace()

    def compose(self) -> ComposeResult:
        """Compose the runs, the conclusion on the one under the cursor, and the frontier."""
        yield TopLine("home")
        with Horizontal(id="body"):
            with Vertical(id="runs-pane"):
                yield Rows(self._row, id="runs", title="runs", head=self._heading)
                yield Static(id="about", markup=False)
            yield Static(id="frontier", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the runs, and read their figures."""
        self.rows.focus()
        self._read()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.show_here())
        self.set_interval(1.0, self.look)

    def on_unmount(self) -> None:
        """Close the connection that watches the store."""
        self.store_watch.close()

    @property
    def rows(self) -> Rows:
        """List of the runs."""
        return self.query_one("#runs", Rows)

    @property
    def selection(self) -> tuple[RunGroup, Run | None] | None:
        """Group and run under the cursor; the run is ``None`` on the line of a group."""
        return self.lines[self.rows.row] if self.lines else None

    # Reading

    def look(self) -> None:
        """Read the changes since the last look, if a reading is due."""
        if self.is_current and self._pace.is_due() and self.store_watch.changed():
            self._read()

    @work(thread=True)
    def _read(self) -> None:
        with self._pace.reading():
            runs, names = self.store.runs(), kept_names(self.store.engine)
            answer(self, self._set_groups, runs, names)
            self.overviews = {overview.run.id: overview for overview in run_overviews(self.store, runs, names)}
            answer(self, self._listed)
            for group in self.groups:
                if not group.folded:
                    self._compare(group)

    def _compare(self, group: RunGroup) -> None:
        try:
            for run in group.runs:
                refresh_scores(self.store, run)
            # Figures of an unfinished run cover other questions and cannot be compared.
            finished = [
                run for run in group.runs if (overview := self.overviews.get(run.id)) is None or not overview.so_far
            ]
            comparison = compare(self.store, finished, shared_scorers=True) if finished else None
            # Costs first: lines are drawn by another thread, which asks for them as soon as there is a comparison.
            group.costs = run_costs(comparison, comparison.headline_tables()) if comparison else {}
            group.comparison = comparison
            group.trouble = "" if finished else "No run is finished yet."
        except UserError as error:
            group.trouble = str(error)
        answer(self, self._listed)

    def _set_groups(self, runs: Sequence[Run], names: dict[str, str]) -> None:
        known_groups = {questions_key(group.runs[0]): group for group in self.groups}
        runs_by_questions: dict[object, list[Run]] = {}
        for run in sorted(runs, key=lambda run: run.created):
            runs_by_questions.setdefault(questions_key(run), []).append(run)
        groups: list[RunGroup] = []
        many = len(runs) + len(runs_by_questions) > self.size.height - _OTHER_LINES
        for key, members in sorted(runs_by_questions.items(), key=lambda entry: entry[1][-1].created)[::-1]:
            group = known_groups.get(key) or RunGroup(folded=bool(groups) and many)
            group.runs, group.names = members, names_of_runs(members, names)
            groups.append(group)
        self.groups = groups
        self._listed()

    # Lines

    def _listed(self) -> None:
        """Show the lines again, the best run of each group first; the cursor stays on its run."""
        current = self.selection
        self.lines = []
        for group in self.groups:
            self.lines.append((group, None))
            self.lines += [] if group.folded else [(group, run) for run in self._ranked(group)]
        lines = [(id(group), run.id if run else "") for group, run in self.lines]
        before = (id(current[0]), current[1].id if current[1] else "") if current else None
        row = lines.index(before) if before in lines else 0
        self.rows.show(len(self.lines), row)
        self.show_here()

    def _ranked(self, group: RunGroup) -> list[Run]:
        return sorted(group.runs, key=lambda run: -(self._score(group, run)[0] or 0.0))

    def _score(self, group: RunGroup, run: Run) -> tuple[float | None, float | None, float | None]:
        """Return a run's score with its interval; for an unfinished run the score so far, without interval."""
        overview, line = self.overviews.get(run.id), group.line(run)
        if line is None or (overview and overview.so_far):
            return (overview.score if overview else None), None, None
        return line.overall.value, line.overall.low, line.overall.high

    def _heading(self, width: int) -> str:
        columns = self._columns(width)
        name = fit("  benchmark, agent", width - sum(cells for _, cells in columns))
        return name + "".join(fit(title, cells, right=True) for title, cells in columns)

    def _row(self, row: int, width: int) -> Cells:
        group, run = self.lines[row]
        columns, table = self._columns(width), group.table
        left = width - sum(cells for _, cells in columns)
        if run is None:
            count = number_of(len(group.runs), "agent" if len(set(group.names.values())) == len(group.runs) else "run")
            overview = self.overviews.get(group.runs[0].id)
            scorer = table.scorer if table else overview.scorer if overview else ""
            ago = age(max(0.0, time.time() - group.runs[-1].created))
            when = ago if ago == "now" else f"{ago} ago"
            about = [number_of(group.runs[0].count, "question"), count, when]
            about += [f"{group.runs[0].epochs} epochs"] if group.runs[0].epochs > 1 else []
            about += [f"by {scorer}"] if scorer else []
            words = f"{'▸' if group.folded else '▾'} {one_line(group.runs[0].benchmark, 40)}"
            return [(words, "heading"), (fit("".join(f" · {part}" for part in about), width - len(words)), "dim")]
        value, low, high = self._score(group, run)
        overview = self.overviews.get(run.id)
        unit = table.unit if table else overview.unit if overview else "percent"
        size = min(_NAME, left // 2)
        doubt = self._doubt(run)
        bar = max(0, left - size - 5 - (len(doubt) + 1 if doubt else 0))
        cells: Cells = [
            ("  ● " if run.id in self.picked else "    ", "mark"),
            (agent_cell(group.names, run.id, size) + " ", "plain"),
        ]
        cells += bar_cells(value, low, high, bar) if unit == "percent" else [(" " * bar, "plain")]
        cells += [(f" {doubt}", "trouble")] if doubt else []
        figures = ["" if value is None else in_scale(value, unit, 1), "" if low is None else ends(low, high, unit, 0)]
        totals = [row for row in group.comparison.rows if row.run == run.id] if group.comparison else []
        if totals:
            figures += [column.cell(totals[0]) for column in self._cost_columns(width, group.costs)]
        styles = ("strong", "dim", "key", *["dim"] * len(columns))
        styled = zip(figures, columns, styles, strict=False)
        return [*cells, *((fit(text, room, right=True), style) for text, (_, room), style in styled)]

    def _cost_columns(self, width: int, costs: Mapping[str, QuestionCost]) -> list[Column]:
        """Return the columns of costs that a screen of this width has."""
        rows = [row for group in self.groups if group.comparison for row in group.comparison.rows]
        return [column for column in visible_columns(cost_columns(costs), rows) if width >= _WIDE or not column.spare]

    def _columns(self, width: int) -> list[tuple[str, int]]:
        """Return the heading and the cells of each column at the right."""
        titles = [column.heading or column.name for column in self._cost_columns(width, {})]
        return [*_SCORE, *((title, max(_COST, len(title) + 1)) for title in titles)]

    def _doubt(self, run: Run) -> str:
        """Return what makes a figure doubtful: progress of an unfinished run, failures."""
        overview = self.overviews.get(run.id)
        if overview is None:
            return "…"
        doubts = [f"{overview.made:,} of {run.count * run.epochs:,}"] if overview.so_far else []
        doubts += [f"{overview.failed:,} failed"] if overview.failed else []
        return ", ".join(doubts)

    # The lines below the list

    @on(Rows.Moved)
    def show_here(self) -> None:
        """Show the conclusion on the runs under the cursor, outcomes of the run's attempts, and the frontier."""
        at_work = sum(overview.so_far for overview in self.overviews.values())
        self.query_one(TopLine).tell(
            number_of(sum(len(group.runs) for group in self.groups), "run"),
            f"{at_work} not finished" if at_work else "",
            f"picked: {len(self.picked)}" if self.picked else "",
        )
        about = self.query_one("#about", Static)
        if self.selection is None:
            about.update("There are no runs yet. `ragrounds run` makes some.")
            return
        group, run = self.selection
        conclusion, table = Text(), group.table
        if group.comparison is not None and table is not None:
            conclusion.append(" ".join(conclusion_lines(group.comparison, (), group.names)), "bold")
            if run is not None and group.line(run) is not None:
                outcomes = group.comparison.outcomes()[run.id]  # of all questions, as in the list
                counts = [f"{outcomes[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if outcomes[name]]
                conclusion.append(f"\n{group.names[run.id]}: {' · '.join(counts)} · run {run.id}")
        else:
            conclusion.append(group.trouble or ("" if group.folded else "comparing …"), "" if group.trouble else "dim")
        about.update(conclusion)
        self.query_one("#frontier", Static).update(self._picture(group))

    @property
    def _picture_height(self) -> int:
        return min(32 if self.has_class("-wide") else 20, self.size.height - _OTHER_LINES)

    def _picture(self, group: RunGroup) -> Text:
        table = group.table
        if table is None or table.frontier is None or len(table.frontier.points) < 2:
            return Text(f"No picture: {NO_FRONTIER}." if table else "", "dim")
        width = self.size.width * 2 // 5 if self.has_class("-wide") else self.size.width
        picture = frontier_picture(table.frontier, table.scorer, group.names)
        try:
            return draw(picture, width - 4, self._picture_height, "dark" if self.app.current_theme.dark else "light")
        except UserError as error:
            return Text(str(error), "dim")

    # Keys

    def action_fold(self, folded: bool) -> None:
        """Fold or unfold the runs under the cursor."""
        if self.selection is None or self.selection[0].folded == folded:
            return
        group = self.selection[0]
        group.folded = folded
        if not folded and group.comparison is None:
            self.run_worker(lambda: self._compare(group), thread=True, group="figures")
        self._listed()

    def action_pick(self) -> None:
        """Pick the run under the cursor, or unpick it. Picked runs on other questions are dropped: they cannot be
        compared."""
        if self.selection is None or (run := self.selection[1]) is None:
            return
        other_ids = {member.id for member in self.selection[0].runs} - {run.id}
        picked_others = [id for id in self.picked if id in other_ids]
        self.picked = picked_others if run.id in self.picked else [*picked_others, run.id]
        self.show_here()
        self.rows.refresh()

    def action_clear(self) -> None:
        """Unpick all runs."""
        self.picked = []
        self.show_here()
        self.rows.refresh()

    @on(Rows.Chosen)
    async def _selected_runs(self) -> None:
        if self.selection is not None and self.selection[1] is None and self.selection[0].folded:
            self.action_fold(False)
        elif self.selection is not None:
            await self.action_view("attempts" if self.selection[1] or len(self.selection[0].runs) == 1 else "grid")

    async def action_view(self, name: str) -> None:
        """Open a view of the picked runs, else of those under the cursor.

        For one run its attempts are listed. To compare two, the run under the cursor and the best other one are taken.
        """
        if self.selection is None:
            return
        group, run = self.selection
        picked = [member for id in self.picked for member in group.runs if member.id == id]
        if name == "compare" and len(picked) < 2 and len(group.runs) > 1:
            ranked = self._ranked(group)
            first = run or ranked[0]
            picked = [first, next(member for member in ranked if member.id != first.id)]
        only = name == "attempts" and run is not None and len(picked) < 2 and len(group.runs) > 1
        if name == "compare" and len(picked) > 2:
            name = "grid"
        self._opens(picked if len(picked) > 1 else group.runs, name, f"run:{run.id}" if only and run else "")


def questions_key(run: Run) -> object:
    """Return the key of a run's questions. Runs with the same key can be compared."""
    return run.benchmark, run.questions, run.epochs


def bar_cells(value: float | None, low: float | None, high: float | None, width: int) -> Cells:
    """Return a share as a bar of exactly `width` cells, full up to the interval's low end, faint up to its high one."""
    if value is None or width < 4:
        return [(" " * width, "plain")]
    bounds = (value if low is None else low, value, high or value)
    full, middle, last = (round(width * min(1.0, max(0.0, bound))) for bound in bounds)
    return [("█" * full + "▓" * (middle - full) + "░" * (last - middle), "bar"), ("·" * (width - last), "dim")]
