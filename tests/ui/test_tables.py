"""Tables on narrow screens: figures and ids whole, words folded, rows in lines of their own where that is too wide."""

import io

import pytest
from msgspec import structs
from rich.cells import cell_len
from rich.console import Console

from ragrounds.evals.store.ledger import Ledger, LedgerLine
from ragrounds.records import Run, Usage
from ragrounds.ui.run_tables import ledger_table, runs_table
from ragrounds.ui.tables import Column, TextTable, latex, markdown, print_table

MODEL = "openai:organisation/a-model-with-a-long-name[max_tokens=4096,temperature=0]"
LINE = LedgerLine(
    run="vanilla_rag-top_k-1-4aa705",
    role="answering",
    node="vanilla_rag",
    model=MODEL,
    calls=12_345,
    reused=1_234,
    failed=12,
    usage=Usage(input=12_345_678, output=1_234_567, cached=123_456, reasoning=98_765),
    cost_paid=0.00012,
    cost_uncached=None,
    unpriced=1,
    known=12.34,
)
TOTAL = structs.replace(LINE, run="", role="", node="", model="")
FIGURES = ("12,345", "1,234", "12.3 M", "1.2 M", "123.5 k", "98.8 k", "$0.00012", "unknown (at least $12.34)")


def printed(sheet: TextTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    print_table(sheet, console)
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 180, 300])
def test_no_figure_of_the_ledger_is_cut(width):
    sheet = ledger_table(Ledger(by=("run", "role", "node", "model"), lines=(LINE, LINE), total=TOTAL))
    lines = printed(sheet, width)
    text = "\n".join(lines)
    assert "…" not in text
    for figure in FIGURES:
        assert text.count(figure) == 3, figure  # two lines and their sum
    assert sum("vanilla_rag-top_k-1-4aa705" in line for line in lines) == 2
    assert ("calls: 12,345" in text) == (width <= 120)
    if width != 180:  # there the model is folded between other columns
        assert text.count(MODEL) == 2


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_ids_stay_whole_in_the_list_of_runs(width):
    runs = [
        Run(
            id=id, agent=agent, benchmark=benchmark, questions="q", count=107, epochs=1, fingerprint="f", identity={},
            created=1e9,
        )
        for id, agent, benchmark in (
            ("direct-f39b35", "direct", "sample"),
            ("vanilla_rag-top_k-1-4aa705", "vanilla_rag[top_k=1]", "sample"),
            ("i_medrag-rounds-4-0b7dde", "i_medrag[rounds=4,queries=3]", "mirage/pubmedqa"),
        )
    ]  # fmt: skip
    for chosen in (runs, runs[:2]):
        lines = printed(runs_table(chosen, dict.fromkeys([run.id for run in runs], 107)), width)
        for run in chosen:
            assert sum(line.startswith(run.id) for line in lines) == 1
        assert sum("107/107" in line for line in lines) == len(chosen)
        assert all(cell_len(line.rstrip()) <= width for line in lines)


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
    assert printed(sheet, 80) == ["", "t", "#  agent                   n", "1  direct                107"]


def test_notes_stand_beneath_exported_tables() -> None:
    table, note = (
        TextTable(key="k", title="t", columns=(Column("a"),), rows=(("1",),)),
        "5 of 9 were made again: <b> & 50 %",
    )
    assert markdown([table], [note]).endswith("| 1 |\n\nNote: 5 of 9 were made again: &lt;b&gt; &amp; 50 %\n")
    written = "\\noindent Note: 5 of 9 were made again: \\textless{}b\\textgreater{} \\& 50 \\%\\par\n"
    assert latex([table], [note]).endswith(written)
    assert "Note" not in markdown([table]) + latex([table])
