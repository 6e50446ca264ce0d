"""The home: benchmarks, what their runs are worth and cost, and where these stand; from here one goes down to attempts.

Figures are those of a comparison, made in a thread: of a benchmark when it is unfolded. Those of runs that are still
made are shown as far as they are, and read again when something was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from ragrounds.base.errors import UserError
from ragrounds.base.records import OUTCOMES, Run
from ragrounds.evals.compare.comparison import Comparison, ScorerTable, compare
from ragrounds.evals.compare.overview import RunOverview, run_overviews
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.one_screen import RunCost, prices, run_costs
from ragrounds.ui.text import age, dollars, duration, ends, in_scale, number_of, one_line, tokens
from ragrounds.ui.trace.attempt_list import agent_names
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.layout import Cells, fit
from ragrounds.ui.trace.view import answer
from ragrounds.ui.trace.widgets import Rows

_PATIENCE = 5
"""Figures that took so long to read are read again after so many times as long, at the earliest."""
_FIGURES = (("score", 9), ("95 %", 9), ("$/100", 8), ("tokens", 8), ("time", 8))
"""Columns at the right: heading, cells; the last two where there is room."""
_NAME = 34
"""Cells of an agent's name at most."""


class RunGroup(Struct):
    """Runs on the same questions."""

    runs: list[Run]
    names: dict[str, str]
    """Run id → what it is called here, safe to show."""
    comparison: Comparison | None = None
    costs: dict[str, RunCost] = {}
    """Run id → what it costs, where they are compared."""
    trouble: str = ""
    """Why they cannot be compared."""
    folded: bool = True

    @property
    def table(self) -> ScorerTable | None:
        """Its figures under the headline."""
        shown = self.comparison.shown() if self.comparison else ()
        return shown[0][0] if shown else None


class HomeScreen(Screen[int | None]):
    """Every run of a store, by the questions that it was asked.

    Args:
        store: where they are.
        opens: opens some of them in a view, with a filter.
    """

    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012 (as Screen declares it)
    DEFAULT_CSS = """
    HomeScreen {
        & Rows { height: 1fr; border: round $border-blurred; &:focus { border: round $accent; } }
        & #about { height: auto; max-height: 5; padding: 0 1; }
        & #frontier { height: auto; padding: 0 1; border: round $border-blurred; display: none; }
        &.-high #frontier, &.-frontier #frontier { display: block; }
        &.-low.-frontier Rows { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pick", "Pick", id="home.pick"),
        Binding("c", "view('compare')", "Where they differ", id="home.compare"),
        Binding("v", "frontier", "Cost and score", id="home.frontier"),
        Binding("f", "filter", "Filter", id="home.filter", show=False),
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
        """Ids of runs of one group, in the order in which they were picked."""
        self.lines: list[tuple[RunGroup, Run | None]] = []
        self._not_before = 0.0

    def compose(self) -> ComposeResult:
        """The runs, what is said of the one under the cursor, and the frontier."""
        yield TopLine("home")
        yield Rows(self._row, id="runs", title="runs", head=self._heading)
        yield Static(id="about", markup=False)
        yield Static(id="frontier", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the runs, and read their figures."""
        self.rows.focus()
        self._read()
        self.set_interval(1.0, self.look)

    def on_unmount(self) -> None:
        """Close the connection by which the store is looked at."""
        self.store_watch.close()

    @property
    def rows(self) -> Rows:
        """The list."""
        return self.query_one("#runs", Rows)

    @property
    def here(self) -> tuple[RunGroup, Run | None] | None:
        """What is under the cursor: a run, or the questions of some."""
        return self.lines[self.rows.row] if self.lines else None

    # Reading

    def look(self) -> None:
        """Read again what was written since the last look, if the last reading was not too slow for that."""
        if self.is_current and time.monotonic() >= self._not_before and self.store_watch.changed():
            self._read()

    @work(thread=True, exclusive=True, group="home")
    def _read(self) -> None:
        began = time.monotonic()
        runs, names = self.store.runs(), kept_names(self.store.engine)
        answer(self, self._grouped, runs, names)
        answer(self, self._overviewed, run_overviews(self.store, runs, names))
        for group in self.groups:
            if not group.folded:
                self._compare(group)
        self._not_before = time.monotonic() + _PATIENCE * (time.monotonic() - began)

    def _compare(self, group: RunGroup) -> None:
        try:
            for run in group.runs:
                refresh_scores(self.store, run)
            # The figures of a run that is not finished are of other questions.
            made = [run for run in group.runs if (one := self.overviews.get(run.id)) is None or not one.so_far]
            group.comparison = compare(self.store, made, shared_scorers=True) if made else None
            group.costs = run_costs(group.comparison, [group.table] if group.table else []) if group.comparison else {}
            group.trouble = "" if made else "No run is finished yet."
        except UserError as error:
            group.trouble = str(error)
        answer(self, self._listed)

    @work(thread=True, group="figures")
    def _unfolded(self, group: RunGroup) -> None:
        self._compare(group)

    def _grouped(self, runs: Sequence[Run], names: dict[str, str]) -> None:
        known = {asked(group.runs[0]): group for group in self.groups}
        found: dict[object, list[Run]] = {}
        for run in sorted(runs, key=lambda run: run.created):
            found.setdefault(asked(run), []).append(run)
        made: list[RunGroup] = []
        for key, members in sorted(found.items(), key=lambda one: one[1][-1].created)[::-1]:
            called = agent_names(members, names)
            before = known.get(key)
            group = before or RunGroup(members, called, folded=bool(made))
            group.runs, group.names = members, called
            made.append(group)
        self.groups = made
        self._listed()

    def _overviewed(self, found: list[RunOverview]) -> None:
        self.overviews = {one.run.id: one for one in found}
        self._listed()

    # Lines

    def _listed(self) -> None:
        """Show the lines anew, the best run of each group first; the cursor stays on its run."""
        here = self.here
        self.lines = []
        for group in self.groups:
            self.lines.append((group, None))
            shown = [] if group.folded else sorted(group.runs, key=lambda run: -(self._score(group, run)[0] or 0.0))
            self.lines += [(group, run) for run in shown]
        lines = [(id(group), run.id if run else "") for group, run in self.lines]
        before = (id(here[0]), here[1].id if here[1] else "") if here else None
        at = lines.index(before) if before in lines else 0
        self.rows.show(len(self.lines), at)
        self.show_here()

    def _score(self, group: RunGroup, run: Run) -> tuple[float | None, float | None, float | None]:
        """A run's figure with its interval; of one that is still made, of what is done and without one."""
        one, table = self.overviews.get(run.id), group.table
        line = next((line for line in table.lines if line.run == run.id), None) if table else None
        if line is None or (one is not None and one.so_far):
            return (one.score if one else None), None, None
        return line.overall.value, line.overall.low, line.overall.high

    def _heading(self, width: int) -> str:
        columns = _columns(width)
        name = fit("  benchmark, agent", width - sum(cells for _, cells in columns))
        return name + "".join(fit(title, cells, right=True) for title, cells in columns)

    def _row(self, row: int, width: int) -> Cells:
        group, run = self.lines[row]
        columns = _columns(width)
        left = width - sum(cells for _, cells in columns)
        if run is None:
            count = number_of(len(group.runs), "agent" if len(set(group.names.values())) == len(group.runs) else "run")
            one = self.overviews.get(group.runs[0].id)
            scorer = group.table.scorer if group.table else one.scorer if one else ""
            ago = age(max(0.0, time.time() - group.runs[-1].created))
            when = ago if ago == "now" else f"{ago} ago"
            about = [number_of(group.runs[0].count, "question"), count, when]
            about += [f"{group.runs[0].epochs} epochs"] if group.runs[0].epochs > 1 else []
            about += [f"by {scorer}"] if scorer else []
            words = f"{'▸' if group.folded else '▾'} {one_line(group.runs[0].benchmark, 40)}"
            return [(words, "heading"), (fit("".join(f" · {one}" for one in about), width - len(words)), "dim")]
        value, low, high = self._score(group, run)
        one = self.overviews.get(run.id)
        unit = group.table.unit if group.table else one.unit if one else "percent"
        size = min(_NAME, left // 2)
        mark = "●" if run.id in self.picked else " "
        doubt = self._doubt(run)
        bar = max(0, left - size - 5 - (len(doubt) + 1 if doubt else 0))
        cells: Cells = [(f"  {mark} ", "mark"), (fit(group.names[run.id], size) + " ", "plain")]
        cells += bar_cells(value, low, high, bar) if unit == "percent" else [(" " * bar, "plain")]
        cells += [(f" {doubt}", "trouble")] if doubt else []
        between = "" if low is None else ends(low, high, unit, 0)
        figures = ["" if value is None else in_scale(value, unit, 1), between, *self._costs(group, run)]
        styles = ("strong", "dim", "key", "dim", "dim")
        made = zip(figures, columns, styles, strict=False)
        return [*cells, *((fit(text, room, right=True), style) for text, (_, room), style in made)]

    def _costs(self, group: RunGroup, run: Run) -> list[str]:
        """What 100 questions cost at full price; tokens and time of one."""
        row = next((row for row in group.comparison.rows if row.run == run.id), None) if group.comparison else None
        if row is None or (cost := group.costs.get(run.id)) is None:
            return ["", "", ""]
        price = "$ ?" if cost.dollars is None else dollars(cost.dollars)
        return [price, tokens(cost.tokens), duration(row.seconds)]

    def _doubt(self, run: Run) -> str:
        """What makes a figure doubtful: how far the run is, what failed."""
        one = self.overviews.get(run.id)
        if one is None:
            return "…"
        whole = run.count * run.epochs
        said = [f"{one.made:,} of {whole:,}" if one.so_far else "", f"{one.failed:,} failed" if one.failed else ""]
        return ", ".join(filter(None, said))

    # What is said below

    @on(Rows.Moved)
    def show_here(self) -> None:
        """Say what can be concluded of the runs under the cursor, how these answers ended, and draw the frontier."""
        at_work = sum(1 for one in self.overviews.values() if one.so_far)
        about = [number_of(len(self.overviews), "run"), f"{at_work} not finished" if at_work else ""]
        self.query_one(TopLine).tell(*about, f"picked: {len(self.picked)}" if self.picked else "")
        if self.here is None:
            self.query_one("#about", Static).update("There are no runs yet. `ragrounds run` makes some.")
            return
        group, run = self.here
        said, table = Text(), group.table
        if group.comparison is not None and table is not None:
            priced = prices(group.comparison, [table])
            said.append("\n".join(verdict_lines(group.comparison, (), group.names, priced)), "bold")
            line = next((line for line in table.lines if run is not None and line.run == run.id), None)
            if run is not None and line is not None:
                counts = [
                    f"{count:,} {name.replace('_', ' ')}" for name in OUTCOMES if (count := line.outcomes.get(name))
                ]
                said.append(f"\n{group.names[run.id]}: {' · '.join(counts)} · run {run.id}")
        else:
            said.append(group.trouble or ("" if group.folded else "comparing …"), "" if group.trouble else "dim")
        self.query_one("#about", Static).update(said)
        self.query_one("#frontier", Static).update(self._picture(group))

    def _picture(self, group: RunGroup) -> Text:
        table = group.table
        if table is None or table.frontier is None or len(table.frontier.points) < 2:
            return Text("No picture: costs of two runs at least must be known." if table else "", "dim")
        room = min(20, self.size.height - 9)
        try:
            return draw(frontier_picture(table.frontier, table.scorer, group.names), self.size.width - 4, room)
        except UserError as error:
            return Text(str(error), "dim")

    # Keys

    def action_frontier(self) -> None:
        """Show the frontier, or the list alone."""
        self.toggle_class("-frontier")
        self.rows.focus()

    def action_fold(self, folded: bool) -> None:
        """Fold the runs under the cursor, or unfold them."""
        if self.here is None or self.here[0].folded == folded:
            return
        group = self.here[0]
        group.folded = folded
        if not folded and group.comparison is None:
            self._unfolded(group)
        self._listed()

    def action_pick(self) -> None:
        """Pick the run under the cursor, or take it out again; runs on other questions are not compared with it."""
        if self.here is None or (run := self.here[1]) is None:
            return
        mine = {one.id for one in self.here[0].runs}
        kept = [id for id in self.picked if id in mine]
        self.picked = [id for id in kept if id != run.id] if run.id in kept else [*kept, run.id]
        self.show_here()
        self.rows.refresh()

    def action_clear(self) -> None:
        """Pick none."""
        self.picked = []
        self.show_here()
        self.rows.refresh()

    @on(Rows.Chosen)
    async def _chosen(self) -> None:
        if self.here is not None and self.here[1] is None and self.here[0].folded:
            self.action_fold(False)
        elif self.here is not None:
            await self.action_view("attempts" if self.here[1] or len(self.here[0].runs) == 1 else "grid")

    async def action_filter(self) -> None:
        """Filter the attempts of the runs under the cursor."""
        await self.action_view("attempts")
        self.app.call_after_refresh(self.app.run_action, "filter")

    async def action_view(self, name: str) -> None:
        """Open a view of the runs that were picked, else of those under the cursor: of one run its attempts; where two
        are compared, the one under the cursor and the best other."""
        if self.here is None:
            return
        group, run = self.here
        picked = [one for id in self.picked for one in group.runs if one.id == id]
        if name == "compare" and len(picked) < 2 and len(group.runs) > 1:
            ranked = sorted(group.runs, key=lambda one: -(self._score(group, one)[0] or 0.0))
            first = run or ranked[0]
            picked = [first, next(one for one in ranked if one.id != first.id)]
        only = name == "attempts" and run is not None and len(picked) < 2 and len(group.runs) > 1
        if name == "compare" and len(picked) > 2:
            name = "grid"
        self._opens(picked if len(picked) > 1 else group.runs, name, f"run:{run.id}" if only and run else "")


def asked(run: Run) -> object:
    """What a run was asked: those that share it are compared."""
    return run.benchmark, run.questions, run.epochs


def bar_cells(value: float | None, low: float | None, high: float | None, width: int) -> Cells:
    """A share as a bar of exactly `width` cells, full up to the interval's low end, faint up to its high one."""
    if value is None or width < 4:
        return [(" " * width, "plain")]
    ends = [round(width * min(1.0, max(0.0, end))) for end in (value if low is None else low, value, high or value)]
    full, middle, last = ends
    return [("█" * full + "▓" * (middle - full) + "░" * (last - middle), "bar"), ("·" * (width - last), "dim")]


def _columns(width: int) -> list[tuple[str, int]]:
    return [*_FIGURES[: 5 if width >= 100 else 3]]
