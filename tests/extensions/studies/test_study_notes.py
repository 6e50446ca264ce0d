"""Notes of a study: they follow from its cells."""

import io
import re

from msgspec import structs
from rich.console import Console

from ragrounds.base.settings import Settings
from ragrounds.extensions.studies.missing_requirements import find_missing_requirements
from ragrounds.extensions.studies.paper_table import StudyTable, TableCell, TableRow
from ragrounds.extensions.studies.study import open_study
from ragrounds.extensions.studies.tables import paper_notes, print_study, study_notes, study_tables
from ragrounds.ui.tables.html_tables import html_table


def cell(column, **more):
    return TableCell(**{"row": "ours", "column": column, "state": "done", **more})


def table(*cells):
    columns = tuple(one.column for one in cells)
    return StudyTable(
        study="s", title="A title", source="A paper, Table 1", columns=columns, digits=2, spread="", baseline="",
        rows=(TableRow(name="ours", group="", cells=tuple(cells)),),
    )  # fmt: skip


def test_rows_of_published_figures_are_indented_and_the_first_column_stays():
    (main,) = study_tables(table(cell("a", value=50.0, published=52.0, deviation=-2.0)))
    page = html_table(main)
    assert page.count('<tr class="under">') == 2
    assert '<tr class="under"><th scope="row">  published</th>' in page
    assert "data-still" in page


def test_nobody_is_asked_again_for_an_imported_reply():
    (own,) = study_notes(table(cell("a", value=50.0, failed=2, runs=("r",))))
    assert own == "Attempts that an error ended count as 0 (ours · a: 2); the same command asks again."
    (imported,) = study_notes(table(cell("a", value=50.0, failed=2, runs=("r",), imported=True)))
    assert imported == "Recorded replies that are missing or hold an error count as 0 (ours · a: 2)."


def printed(made, **more):
    console = Console(width=120, record=True, file=io.StringIO())
    print_study(made, [], console, **more)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_cause_is_a_line_and_a_row_that_is_not_run_shows_what_the_paper_prints():
    why = "The benchmark '{}' has no copy here yet. Add it with `ragrounds data add`.\nNo key. Set it."
    cells = [cell(name, state="lacks", why=why.format(name), published=1.5) for name in ("a", "b")]
    made = structs.replace(table(*cells), notes=("Figures are in percent. The rest is long.",))
    lines = printed(made)
    assert re.split("  +", lines[-5]) == ["ours (published)", "1.50", "1.50"]
    assert lines[-4:] == [
        "Note: Figures are in percent.",
        "Not run, 2 cells: The benchmark 'a', 'b' has no copy here yet.",
        "Not run, 2 cells: No key.",
        f"Details and fixes: ragrounds study show {made.study} --full",
    ]
    assert printed(made, reference="my table.toml")[-1].endswith("ragrounds study show 'my table.toml' --full")
    assert any("`ragrounds data add`" in line for line in printed(made, full=True))
    doubtful = table(cell("a", value=50.0, failed=2, runs=("r",)))
    assert printed(doubtful)[-1].startswith("Note: Attempts that an error ended count as 0"), "it is never folded"


def test_a_paper_has_no_commands_in_its_notes():
    made = structs.replace(
        table(cell("a", state="lacks", why="No copy of it. Add it with `ragrounds data add`.")),
        notes=("In percent. Take it: `ragrounds data fetch x`. Read as published.",),
    )
    assert paper_notes(made) == ["In percent. Read as published.", "Not run, 1 cell: No copy of it."]
    assert "`ragrounds data fetch x`" in study_notes(made)[0]


def test_a_cell_without_its_index_says_how_it_is_built(tmp_path):
    cells = open_study("mirage-table6").cells()
    searching_cell = next(cell for cell in cells if cell.row.endswith("MedRAG"))
    missing = find_missing_requirements(searching_cell, Settings(home=tmp_path))
    assert "Build it: `ragrounds index build pubmed --from FAMILY:PATH`." in missing
