"""What stands before a study's table follows from its cells."""

import io
import re

from msgspec import structs
from rich.console import Console

from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.extensions.studies.missing_requirements import find_missing_requirements
from ragrounds.extensions.studies.page import study_page
from ragrounds.extensions.studies.paper_table import StudyTable, TableCell, TableRow
from ragrounds.extensions.studies.study import open_study
from ragrounds.extensions.studies.tables import paper_notes, print_study, study_notes, study_sentences
from tests.compare.making import add_run, questions


def cell(column, **more):
    return TableCell(**{"row": "ours", "column": column, "state": "done", **more})


def table(*cells):
    columns = tuple(one.column for one in cells)
    return StudyTable(
        study="s", title="A title", source="A paper, Table 1", columns=columns, digits=2, spread="", baseline="",
        rows=(TableRow(name="ours", group="", cells=tuple(cells)),),
    )  # fmt: skip


def test_how_near_the_published_figures_are(store):
    made = table(
        cell("a", value=50.0, low=45.0, high=55.0, published=52.0, deviation=-2.0),
        cell("b", value=50.0, low=45.0, high=55.0, published=40.0, deviation=10.0),
        cell("c", value=50.0, published=50.5, deviation=-0.5),
        cell("d", state="to do"),
    )
    first, second = study_sentences(made, [add_run(store, "direct", questions(2), [1, 0])])
    assert first == "A paper, Table 1: 3 of 4 cells carried out with test:model on 1970-01-01."
    assert "at most 2.00 away from it; ours · b is farthest (+10.00)" in second
    assert second.endswith("1 of 2 published figures lie inside our 95 % interval.")
    assert study_notes(made) == ["Not begun: 1 cell."]
    assert "Not begun: 1 cell." in study_page(made, [], [], "")


def test_rows_of_published_figures_are_indented_and_the_first_column_stays():
    page = study_page(table(cell("a", value=50.0, published=52.0, deviation=-2.0)), [], [], "")
    assert page.count('<tr class="under">') == 2
    assert '<tr class="under"><th scope="row">  published</th>' in page
    assert "data-still" in page
    assert "position:sticky" in page


def test_nothing_is_said_of_no_run():
    made = table(cell("a", value=50.0, low=45.0, high=55.0, published=52.0, deviation=-2.0))
    assert list(study_sentences(made, [])) == ["A paper, Table 1: no cell has been carried out yet."]


def test_equal_figures_are_counted_and_computed_cells_are_not():
    made = table(
        cell("a", value=50.0, published=50.0, deviation=0.0),
        cell("b", value=60.0, published=60.0, deviation=0.001),
        cell("c", value=50.0, published=50.5, deviation=-0.5),
        cell("mean", value=55.0, computed=True),
        cell("d", state="to do", computed=True),
    )
    first, second = study_sentences(
        made,
        [
            Run(
                id="r",
                agent="direct",
                benchmark="b",
                questions="q",
                count=2,
                epochs=1,
                fingerprint="f",
                identity={},
                created=0.0,
            )
        ],
    )
    assert "3 of 3 cells" in first
    assert second.startswith("2 of 3 figures equal the published one; ours · c is farthest (-0.50).")


def test_nobody_is_asked_again_for_an_imported_reply():
    (own,) = study_notes(table(cell("a", value=50.0, failed=2, runs=("r",))))
    assert own == "Attempts that an error ended count as 0 (ours · a: 2); the same command asks again."
    (imported,) = study_notes(table(cell("a", value=50.0, failed=2, runs=("r",), imported=True)))
    assert imported == "Recorded replies that are missing or hold an error count as 0 (ours · a: 2)."
    assert "the same command asks again" in study_page(table(cell("a", value=50.0, failed=2, runs=("r",))), [], [], "")


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
