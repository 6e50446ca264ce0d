"""Case reports in: NXML, text, JSON Lines; what they are filtered by, and what is dropped with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.construction.case_reports import (
    ReportFacts,
    ReportFilters,
    open_reports,
    report_items,
    store_of,
)
from ragrounds.tools.documents.jats import read_article
from tests.conftest import Cli
from tests.extensions.construction.annotating import counted, read_lines
from tests.extensions.construction.casing import script_of
from tests.extensions.construction.conftest import Builder

pytest.importorskip("defusedxml", reason="reading NXML needs ragrounds[files]")

PAPER = ReportFilters(after=2022, max_citations=3, max_other_citations=1)


def nxml(pmc: str, year: int, kind: str = "case-report", title: str = "A <italic>rare</italic> case") -> str:
    return f"""<?xml version="1.0"?>
<article article-type="{kind}"><front><article-meta>
<article-id pub-id-type="pmid">1</article-id><article-id pub-id-type="pmc">{pmc}</article-id>
<article-categories><subj-group><subject>Neurology</subject></subj-group></article-categories>
<title-group><article-title>{title}</article-title></title-group>
<pub-date pub-type="collection"><year>{year + 1}</year></pub-date>
<pub-date pub-type="epub"><year>{year}</year></pub-date>
<abstract><p>Of interest.</p></abstract></article-meta></front>
<body><sec><title>Case</title><p>A woman of 40 had fits.<xref>1</xref> They stopped.</p></sec></body>
<back><ref-list><ref><year>1999</year></ref></ref-list></back></article>"""


def test_an_article_says_what_it_is() -> None:
    article = read_article(nxml("10641966", 2023).encode())
    assert (article.pmc, article.year, article.type, article.subject) == (
        "PMC10641966",
        2023,
        "case-report",
        "Neurology",
    )
    assert article.title == "A rare case"
    assert article.text == "Of interest.\n\n# Case\n\nA woman of 40 had fits. They stopped."
    assert read_article(nxml("PMC7", 2023).encode()).pmc == "PMC7"


def test_an_entity_that_expands_is_no_article() -> None:
    bomb = '<!DOCTYPE article [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><article><body><p>&b;</p></body></article>'
    with pytest.raises(ValueError, match="declares entities"):
        read_article(bomb.encode())


@pytest.mark.parametrize(
    ("facts", "reason", "detail"),
    [
        (ReportFacts(year=2023, citations=3, other_citations=1), "", ""),
        (ReportFacts(year=2022, citations=0, other_citations=0), "published in 2022 or before", "2022"),
        (ReportFacts(citations=0, other_citations=0), "year not known", ""),
        (ReportFacts(year=2024, citations=4, other_citations=0), "more than 3 citations", "4"),
        (ReportFacts(year=2024, other_citations=0), "citations not known", ""),
        (ReportFacts(year=2024, citations=3, other_citations=2), "more than 1 citations by other articles", "2"),
        (ReportFacts(year=2024, citations=3), "citations by other articles not known", ""),
    ],
)
def test_the_paper_s_filters(facts: ReportFacts, reason: str, detail: str) -> None:
    assert PAPER.fault(facts) == (reason, detail)


def test_other_filters() -> None:
    assert ReportFilters(types=("Case-Report",)).fault(ReportFacts(type="case-report")) == ("", "")
    assert ReportFilters(types=("case-report",)).fault(ReportFacts(type="editorial")) == (
        "another type",
        "editorial",
    )
    assert ReportFilters(types=("case-report",)).fault(ReportFacts()) == ("type not known", "")
    assert ReportFilters().fault(ReportFacts()) == ("", "")


def test_a_folder_of_articles_with_a_table_of_citations(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.nxml").write_text(nxml("1", 2023))
    (folder / "b.nxml").write_text(nxml("2", 2021))
    (folder / "c.nxml").write_text(nxml("3", 2023, kind="editorial"))
    (folder / "deep" / "d.nxml").write_text(nxml("4", 2023))
    (folder / "e.nxml").write_text("<article><body>")
    (folder / "my report.txt").write_text("A man had a cough. It went away.")
    table = tmp_path / "citations.csv"
    table.write_text("id,year,citations,type\nPMC1,2023,0,case-report\nPMC4,2023,9,case-report\n")
    reports = open_reports(str(folder), table)
    item_set = report_items(
        reports, ReportFilters(after=2022, max_citations=3, types=("case-report",)), limit=None, seed=0
    )
    assert [question.id for question in item_set.items.questions] == ["PMC1"]
    assert item_set.items.golds["PMC1"].documents == ("PMC1",)
    assert item_set.items.questions[0].text.startswith("A rare case\n\nOf interest.")
    dropped = {Path(each.id).name: each.reason for each in item_set.dropped}
    assert dropped == {
        "PMC2": "published in 2022 or before",
        "PMC3": "citations not known",
        "PMC4": "more than 3 citations",
        "e.nxml": "cannot be read",
        "my_report.txt": "year not known",
    }
    assert (item_set.read, item_set.passed) == (6, 1)
    # The store holds every report that can be read, as in the paper; no id has a blank, which judgements cannot carry.
    assert [id for id, _, _ in store_of(reports)] == ["PMC1", "PMC2", "PMC3", "PMC4", "my_report.txt"]


def test_json_lines_bring_their_facts_and_a_draw_is_of_those_that_pass(tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    rows = [
        {"id": f"r{n}", "title": f"T{n}", "text": f"Text {n}.", "year": 2020 + n % 5, "specialty": "Surgery"}
        for n in range(50)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    every = report_items(open_reports(str(file), None), ReportFilters(after=2022), limit=None, seed=1)
    assert every.passed == len(every.items) == 20
    assert {each.reason for each in every.dropped} == {"published in 2022 or before"}
    some = report_items(open_reports(str(file), None), ReportFilters(after=2022), limit=6, seed=1)
    assert (some.read, some.passed, len(some.items)) == (50, 20, 6)
    assert some.items.selection is not None
    assert (some.items.selection.of, some.items.selection.limit, some.items.selection.seed) == (20, 6, 1)
    ids = [question.id for question in some.items.questions]
    assert set(ids) < {question.id for question in every.items.questions}
    assert ids == sorted(ids, key=lambda id: int(id[1:])), "in the file's order"
    other = report_items(open_reports(str(file), None), ReportFilters(after=2022), limit=6, seed=2)
    assert ids != [question.id for question in other.items.questions]
    assert some.items.questions[0].group == "Surgery"


TABLES = {
    "comma.csv": "id,citations,specialty\nr1,0,Surgery\nmy report,2,\nr9,1,\n",
    "semicolon.csv": "\ufeffid;citations;specialty;\nr1;0;Surgery;\nmy report;2;;\nr9;1;;\n",
    "tabs.tsv": "id\tcitations\tspecialty\nr1\t0\tSurgery\nmy report\t2\t\nr9\t1\t\n",
    "lines.jsonl": '{"id": "r1", "citations": 0, "specialty": "Surgery"}\n{"id": "my report", "citations": 2}\n'
    '{"id": "r9", "citations": 1}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_spreadsheets_of_any_country_write_it(tmp_path: Path, name: str) -> None:
    rows = [{"id": id, "text": "x", "year": 2024, "specialty": "Neurology"} for id in ("r1", "my report", "r2")]
    (tmp_path / "reports.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    reports = open_reports(str(tmp_path / "reports.jsonl"), tmp_path / name)
    strangers: list[str] = []
    filters = ReportFilters(after=2022, max_citations=2)
    item_set = report_items(reports, filters, limit=None, seed=0, strangers=strangers)
    # The table says what it knows; the rest is the report's own word.
    assert [(each.id, each.group) for each in item_set.items.questions] == [
        ("r1", "Surgery"),
        ("my_report", "Neurology"),
    ]
    assert [(each.id, each.reason) for each in item_set.dropped] == [("r2", "citations not known")]
    assert strangers == ["r9"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id;citations\na;1\nb;2\na;3\n", r"line 4: the id 'a' is not unique"),
        ("id,citation\na,1\n", r"the column 'citation' is unknown.*Did you mean 'citations'"),
        ("id,citations\na,-1\n", r"line 2: Expected `int` >= 0 - at `\$.citations`"),
        ("id,citations,citations\na,1,2\n", r"line 1: two columns have the name 'citations'"),
        ("id,citations\n,1\n", r"line 2: it has no id"),
        ("id,citations\na,1,2\n", r"line 2: it and the heading have different numbers of fields"),
    ],
)
def test_a_broken_table_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "reports.jsonl").write_text('{"id": "a", "text": "x"}\n')
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(UserError, match=message) as error:
        open_reports(str(tmp_path / "reports.jsonl"), tmp_path / "table.csv")
    assert "\n" not in str(error.value)


def test_ids_of_the_table_that_match_no_report_are_said(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "reports.jsonl").write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n')
    (tmp_path / "table.csv").write_text("id;citations\na;1\nPMC7;2\nPMC8;3\n")
    done = command(
        *["build", "case-questions", str(tmp_path / "reports.jsonl"), "--table", str(tmp_path / "table.csv")],
        *["--out", str(tmp_path / "rare")],
    )
    assert "2 of 3 ids in " in done.stderr
    assert "match no report, such as PMC7, PMC8." in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "text": "x", "citations": -1}', "citations"),
        ('{"id": "a", "text": "x", "year": "last"}', "year"),
        ('{"id": "a", "text": "x", "citations": 1.5}', "citations"),
        ('{"id": "a", "te', "line 1"),
        ('{"text": "x"}', "no id"),
    ],
)
def test_a_broken_line_is_one_clear_line(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "reports.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(UserError, match=message) as error:
        report_items(open_reports(str(file), None), ReportFilters(), limit=None, seed=0)
    assert "\n" not in str(error.value)


def test_nothing_left_and_ids_that_stand_twice(tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    file.write_text('{"id": "a", "text": "x", "year": 2000}\n{"id": "b", "text": "y"}\n')
    with pytest.raises(UserError, match=r"no items are left; all 2 were dropped \(published in 2022 or before, year"):
        report_items(open_reports(str(file), None), ReportFilters(after=2022), limit=None, seed=0)
    file.write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    with pytest.raises(UserError, match="'a' is twice"):
        report_items(open_reports(str(file), None), ReportFilters(), limit=None, seed=0)


def test_from_a_folder_of_articles_to_a_benchmark(command: Cli, builder: Builder, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for number, year in enumerate((2021, 2023, 2023, 2024), 1):
        text = nxml(
            str(number), year, title=f"Case number {number} of a series that has no end at all, and no more to it"
        )
        (folder / f"{number}.nxml").write_text(text)
    (folder / "5.nxml").write_text(nxml("5", 2023, kind="editorial"))
    (folder / "6.nxml").write_text("<article/>")
    filters = ReportFilters(after=2022, types=("case-report",))
    items = report_items(open_reports(str(folder), None), filters, limit=None, seed=0).items.questions
    fates = dict(zip((item.id for item in items), ("kept", "none", "kept"), strict=True))
    assert fates == {"PMC2": "kept", "PMC3": "none", "PMC4": "kept"}
    server, out = builder(script_of(items, list(fates.values()))), tmp_path / "rare"
    done = command(
        *["build", "case-questions", f"files:{folder}", "--out", str(out), "--after", "2022"],
        *["--type", "case-report", "--license", "CC BY 4.0", "--model", "openai:writer", "--checker", "openai:other"],
        *["--base-url", server.url, "--display", "none", "--json"],
    )
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    dropped = {"another type": 1, "cannot be read": 1, "published in 2022 or before": 1}
    assert counted(card)["intake"] == (6, 3, dropped)
    assert card["benchmark"]["license"] == "CC BY 4.0"
    assert card["made"]["figures"]["filters"] == {
        "after": 2022,
        "max_citations": None,
        "max_other_citations": None,
        "types": ["case-report"],
    }
    assert not any("checked by the model that wrote" in note for note in card["made"]["notes"])
    rows = read_lines(out / "ogcarebench.jsonl")
    assert [(row["pmc_id"], row["Classification"]) for row in rows] == [("PMC2", "Neurology"), ("PMC4", "Neurology")]
    store = [json.loads(line)["_id"] for line in (out / "corpus.jsonl").open()]
    assert store == ["PMC1", "PMC2", "PMC3", "PMC4", "PMC5"]
