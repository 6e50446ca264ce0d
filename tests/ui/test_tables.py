"""Tables on narrow screens: figures and ids whole, words folded, rows in lines of their own where that is too wide."""

import io

import pytest
from msgspec import structs
from rich.cells import cell_len
from rich.console import Console

from ragrounds.base.records import Run, Usage
from ragrounds.evals.analyses.analysis import AnalysisResult, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.compare.overview import RunOverview
from ragrounds.evals.store.ledger import Ledger, LedgerLine
from ragrounds.ui.tables.analysis_tables import print_analysis
from ragrounds.ui.tables.run_tables import ledger_table, runs_table
from ragrounds.ui.tables.table_layout import folded, laid_out
from ragrounds.ui.tables.text_tables import Column, TextTable, latex, markdown, print_table

MODEL = "openai:organisation/a-model-with-a-long-name[max_tokens=4096,temperature=0]"
LINE = LedgerLine(
    run="vanilla_rag-top_k-1-4aa705",
    role="answering",
    node="vanilla_rag",
    model=MODEL,
    model_calls=12_345,
    reused=1_234,
    failed=12,
    usage=Usage(input=12_345_678, output=1_234_567, cached=123_456, reasoning=98_765),
    cost_paid=0.00012,
    cost_uncached=None,
    unpriced=1,
    known=12.34,
)
TOTAL = structs.replace(LINE, run="", role="", node="", model="")
FIGURES = ("12,345", "1,234", "12.3 M", "1.2 M", "123.5 k", "98.8 k", "$0.00012", "≥ $12.34")


def printed(sheet: TextTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    print_table(sheet, console)
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 180, 300])
def test_no_figure_of_the_ledger_is_cut(width):
    sheet = ledger_table(Ledger(by=("run", "role", "node", "model"), lines=(LINE, LINE), total=TOTAL), full=True)
    lines = printed(sheet, width)
    text = "\n".join(lines)
    assert "…" not in text
    for figure in FIGURES:
        # Two lines and their sum. The title wraps.
        assert " ".join(text.split()).count(figure) == 3 + sheet.title.count(figure), figure
    bands = laid_out(sheet, width)[0]
    assert len(bands) == {80: 9, 120: 2, 180: 1, 300: 1}.get(width, 0)
    assert text.count("vanilla_rag-top_k-1-4aa705") == 2 * max(1, len(bands))
    assert all(cell_len(line.rstrip()) <= max(width, cell_len(MODEL) + 2) for line in lines[3:])


def overview(id, agent, benchmark, model, cost, corpus=""):
    run = Run(id=id, agent=agent, benchmark=benchmark, questions="q", count=107, epochs=1, fingerprint="f",
              identity={"corpus": corpus}, created=1e9)  # fmt: skip
    made = {"completed": 100, "failed": 3}
    return RunOverview(run=run, statuses=made, models=(model,), scorer="strict", score=0.5, cost_paid=cost)


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_ids_stay_whole_in_the_list_of_runs(width):
    model = "openai:gpt-4o-mini"
    runs = [
        overview("direct-f39b35", "direct", "sample", model, 0.0123),
        overview("vanilla_rag-top_k-1-4aa705", "vanilla_rag[top_k=1]", "sample", model, 1.0),
        overview("i_medrag-rounds-4-0b7dde", "i_medrag[rounds=4,queries=3]", "mirage/pubmedqa", model, None),
    ]
    for chosen in (runs, runs[:2]):
        lines = printed(runs_table(chosen, 1e9 + 7200), width)
        for run in chosen:
            assert sum(line.startswith(run.run.id) for line in lines) == 1
        assert sum("103/107" in line for line in lines) == len(chosen)
        assert sum("50.00" in line for line in lines) == len(chosen)
        assert all(cell_len(line.rstrip()) <= width for line in lines)
        if width == 80:
            assert any("model: openai:gpt-4o-mini" in line for line in lines)  # alike in all, so said once
            assert lines[0].split() == ["run", "benchmark", "strict", "%", "done", "failed", "paid", "age"]


def test_models_that_differ_stay_in_the_list_of_runs():
    runs = [
        overview(f"direct_cot-{id}", "direct_cot", "jsonl/questions", f"openai:med-{size}b", 0.00073, corpus)
        for id, size, corpus in (
            ("e6259c", 8, ""), ("71f66c", 70, ""), ("aaaaaa", 8, "cases@aaaaaa"), ("bbbbbb", 8, "cases@bbbbbb"),
        )
    ]  # fmt: skip
    for width in (80, 100, 200):
        shown = "\n".join(printed(runs_table(runs, 1e9 + 60), width))
        assert ("openai:med-70b" in shown, "cases@aaaaaa" in shown) == (True, True), shown
    assert "paid" in "\n".join(printed(runs_table(runs, 1e9 + 60), 80))


def test_words_are_folded_before_a_table_is_given_up():
    columns = (Column("agent", right=False), Column("accuracy"), Column("only 2nd right"))
    agent = "vanilla_rag[corpus_name=textbooks]"
    sheet = TextTable(key="x", title="", columns=columns, rows=((agent, "30.34 ±4.87", "7"),))
    assert len(printed(sheet, 80)) == 2
    folded = printed(sheet, 44)
    assert "".join(line[:16].strip() for line in folded if line.strip()).endswith(f"agent{agent}")
    assert sum("30.34 ±4.87" in line for line in folded) == 1
    assert "only 2nd right" not in "\n".join(folded)  # the heading is broken between its words
    stacked = printed(sheet, 24)
    assert stacked == ["vanilla_rag[corpus_name=textbooks]", "  accuracy: 30.34 ±4.87", "  only 2nd right: 7"]


def test_a_table_that_fits_is_as_it_was():
    columns = (Column("#"), Column("agent", right=False), Column("n"))
    sheet = TextTable(key="x", title="t", columns=columns, rows=(("1", "direct", "107"),))
    assert printed(sheet, 80) == ["", "t", "#  agent     n", "1  direct  107"]


def test_notes_stand_beneath_exported_tables() -> None:
    table, note = (
        TextTable(key="k", title="t", columns=(Column("a"),), rows=(("1",),)),
        "5 of 9 were made again: <b> & 50 %",
    )
    assert markdown([table], [note]).endswith("| 1 |\n\nNote: 5 of 9 were made again: &lt;b&gt; &amp; 50 %\n")
    written = "\\noindent Note: 5 of 9 were made again: \\textless{}b\\textgreater{} \\& 50 \\%\\par\n"
    assert latex([table], [note]).endswith(written)
    assert "Note" not in markdown([table]) + latex([table])


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("gpt-4-32k-0613", "gpt-4-32k-0613"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("Qwen2.5-72B, Llama-3-8", "Qwen2.5-72B, Llama-3-8"),
        ("GPT-4 (-32k-0613)", "GPT-4 (-32k-0613)"),
        ("2026-11-27", "2026-11-27"),
        ("53.7-73.3", "53.7--73.3"),
        ("(2-4)", "(2--4)"),
        ("-3.20 (-6.1 to -0.3)", "$-$3.20 ($-$6.1 to $-$0.3)"),
        ("-1,204", "$-$1,204"),
    ],
)
def test_latex_has_a_dash_in_ranges_a_minus_before_numbers_and_a_hyphen_in_names(cell: str, written: str) -> None:
    made = latex([TextTable(key="k", title="t", columns=(Column("a"),), rows=((cell,),))])
    assert f"    {written} \\\\\n" in made


def agents(count: int) -> TextTable:
    """A table as comparisons have it: a number, an agent, and figures."""
    names = ["sample", "95 %", "n", "answered", "abstained", "model calls", "in", "out", "paid", "uncached", "time"]
    cells = (
        "64.04 ±5.09",
        "53.7-73.3",
        "1,089",
        "1,107",
        "18",
        "2,140",
        "92.0 k",
        "6.9 k",
        "$0.012",
        "$12.01",
        "94 ms",
    )
    rows = tuple((f"{number}", f"vanilla_rag[top_k={number}]", *cells) for number in range(1, count + 1))
    columns = (Column("#"), Column("agent", right=False), *map(Column, names))
    return TextTable(key="x", title="figures", about="what they mean, in words", columns=columns, rows=rows)


@pytest.mark.parametrize("count", [4, 12])
def test_agents_stand_in_bands_and_an_interval_stays_with_its_figure(count):
    lines = printed(agents(count), 80)
    assert all(cell_len(line) <= 80 for line in lines)
    heads = [line.split() for line in lines if line.split()[:2] == ["#", "agent"]]
    assert [name for head in heads for name in head if name not in ("#", "agent", "%")][:4] == [
        "sample",
        "95",
        "n",
        "answered",
    ]
    assert all(head[2] != "95" for head in heads)
    for number in range(1, count + 1):
        assert sum(line.startswith(f"{number:>{len(str(count))}} ") for line in lines) == len(heads)
    assert len(printed(agents(4), 160)) == 2 + 1 + 4  # where there is room there is one


def test_words_are_broken_where_they_have_parts():
    assert folded("vanilla_rag[top_k=8]", 12) == ["vanilla_rag", "[top_k=8]"]
    assert folded("i_medrag[rounds=4,queries=3]", 16) == ["i_medrag", "[rounds=4,", "queries=3]"]
    assert folded("eine lange Zeile", 10) == ["eine lange", "Zeile"]
    assert folded("肺栓塞肺栓塞肺", 6) == ["肺栓塞", "肺栓塞", "肺"]
    assert "".join(folded("x" * 95, 9)) == "x" * 95
    assert folded("", 5) == [""]


def test_what_can_be_spared_is_left_out_before_a_table_is_given_up():
    columns = (Column("run", right=False, unfolded=True), Column("score"), Column("created", spare=1))
    sheet = TextTable(key="x", title="", columns=columns, rows=(("direct-f39b35", "30.34", "2026-11-22 10:00"),))
    assert "created" in printed(sheet, 60)[0]
    assert printed(sheet, 30) == ["run            score", "direct-f39b35  30.34", "created: 2026-11-22 10:00"]
    two = structs.replace(sheet, rows=(*sheet.rows, ("direct-a", "1.00", "2026-11-23 10:00")))
    assert " ".join(line.strip() for line in printed(two, 30)[3:]) == "left out at this width: created"


def test_a_title_is_broken_between_words_and_says_what_headings_mean():
    lines = printed(agents(2), 30)
    assert lines[1:3] == ["figures  what they mean, in ", "words"]
    assert markdown([agents(2)]).startswith("**figures (what they mean, in words)**\n")


@pytest.mark.parametrize(("note", "whole"), [("word " * 60, False), (f"`ragrounds run {'x ' * 60}` again", True)])
def test_a_note_below_an_analysis_breaks_between_words_unless_it_holds_a_command(note, whole):
    file = io.StringIO()
    shown = AnalysisTable(title="", columns=("change",), rows=(("none",),), note=note)
    result = AnalysisResult(
        name="a", table=shown, record=(), picture=Picture(title="", marks=(Mark(name="none", value=0.5),))
    )
    print_analysis(result, Console(file=file, width=80, force_terminal=True, no_color=True))
    lines = [line for line in file.getvalue().splitlines() if "word" in line or "ragrounds" in line]
    assert (len(lines) == 1) == whole
    assert whole or max(map(len, lines)) <= 80
