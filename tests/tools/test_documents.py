"""Documents of other kinds: text, Markdown, HTML, NXML, PDF, Word."""

import gzip

import pytest

from ragrounds.base.errors import UserError
from ragrounds.tools.corpora import corpus_source, guess_family, passages
from ragrounds.tools.documents import read_document
from ragrounds.tools.documents.found import NORMALISED, normal_text
from ragrounds.tools.index.chunkers import chunker

_NXML = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS//EN" "JATS-archivearticle1.dtd">
<article><front><article-meta><title-group><article-title>Croup in <italic>children</italic></article-title>
</title-group><abstract><p>Barking cough.</p></abstract></article-meta></front>
<body><sec><title>Etiology</title><p>Mostly viral <xref>[1]</xref>, often <b>parainfluenza</b>.</p>
<sec><title>Rare</title><p># not a heading</p></sec></sec>
<sec><title>Treatment</title><list><list-item><p>Dexamethasone</p></list-item></list>
<fig><caption><p>Figure text</p></caption></fig></sec></body></article>"""


def _read(folder, **options):
    return [passage for passage, _ in passages(corpus_source(f"files:{folder}"), **options)]


def test_text_markdown_and_packed_files(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("plain # text")
    (tmp_path / "b.md").write_text("# The title\n\n## Part\n\nBody.")
    (tmp_path / "sub/c.txt.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "image.png").write_bytes(b"x")
    found = _read(tmp_path)
    assert [(p.id, p.title, p.text) for p in found] == [
        ("a.txt", "a", "plain # text"),
        ("b.md", "The title", "## Part\n\nBody."),
        ("sub/c.txt.gz", "c", "packed"),
    ]


@pytest.mark.parametrize(("reading", "figure"), [("full", "\n\nFigure text"), ("medrag", "")])
def test_nxml_keeps_sections_and_leaves_out_references(tmp_path, reading, figure):
    pytest.importorskip("defusedxml")
    (tmp_path / "PMC1.nxml").write_text(_NXML)
    [(document, _)] = passages(corpus_source(f"files[reading={reading}]:{tmp_path}"))
    assert document.title == "Croup in children"
    assert document.text == (
        "Barking cough.\n\n# Etiology\n\nMostly viral , often parainfluenza.\n\n## Rare\n\n\\# not a heading\n\n"
        f"# Treatment\n\nDexamethasone{figure}"
    )
    titles = [chunk.title for chunk in chunker("headings")(document)]
    assert titles == ["Croup in children"] + [
        f"Croup in children -- {path}" for path in ("Etiology", "Etiology -- Rare", "Treatment")
    ]


def test_an_xml_bomb_is_refused(tmp_path):
    pytest.importorskip("defusedxml")
    bomb = '<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;">]><article><body><p>&y;</p></body></article>'
    (tmp_path / "b.nxml").write_text(bomb)
    with pytest.raises(UserError, match=r"b\.nxml"):
        _read(tmp_path)
    bad = []
    assert _read(tmp_path, bad=bad) == []
    assert len(bad) == 1


def test_html_gives_text_without_scripts(tmp_path):
    pytest.importorskip("bs4")
    page = (
        "<html><head><title>Page</title><script>evil()</script></head><body><h1>Head</h1>"
        "<p>One <b>bold</b> &lt;i&gt;</p>"
        "<ul><li>item</li></ul><style>p{}</style></body></html>"
    )
    (tmp_path / "p.html").write_text(page)
    [document] = _read(tmp_path)
    assert (document.title, document.text) == ("Page", "# Head\n\nOne bold <i>\n\nitem")


def test_a_broken_pdf_is_told(tmp_path):
    pytest.importorskip("pypdf")
    (tmp_path / "x.pdf").write_bytes(b"not a pdf")
    with pytest.raises(UserError, match=r"x\.pdf.*PDF"):
        _read(tmp_path)


def test_families_are_guessed(tmp_path):
    for name in ("beir", "docs", "chunks"):
        (tmp_path / name).mkdir()
    (tmp_path / "beir/corpus.jsonl").write_text("")
    (tmp_path / "docs/a.md").write_text("")
    (tmp_path / "chunks/a.jsonl").write_text("")
    assert guess_family(str(tmp_path / "beir")).startswith("beir:")
    assert guess_family(str(tmp_path / "docs")).startswith("files:")
    assert guess_family(str(tmp_path / "chunks")).startswith("jsonl:")
    assert guess_family(str(tmp_path / "chunks/a.jsonl")).startswith("jsonl:")
    assert guess_family("medrag:x") == "medrag:x"


@pytest.mark.parametrize(
    ("text", "normal", "count"),
    [
        ("pulmonary ﬁbrosis, eﬀect, ﬂow", "pulmonary fibrosis, effect, flow", 3),
        ("hyper-\ntension", "hypertension", 1),
        ("amlodi-  \r\n  pine", "amlodipine", 1),
        ("beta-\nblockers and beta-blockers", "beta-blockers and beta-blockers", 1),
        ("IL-\n6, 5-\nfold, A-\nline", "IL-\n6, 5-\nfold, A-\nline", 0),
        ("hyper\u00adtension and in\u00ad\nflammation", "hypertension and inflammation", 2),
        ("hepa\u200brin, Me\u0301nie\u0300re", "heparin, Ménière", 3),
    ],
)
def test_words_are_made_findable(tmp_path, text, normal, count):
    assert normal_text(text, joins_lines=True) == (normal, count)
    (tmp_path / "a.txt").write_bytes(text.encode())
    passage, remarks = read_document(tmp_path / "a.txt", tmp_path)
    assert passage.text == normal
    assert [remark.detail for remark in remarks if remark.reason == NORMALISED] == (
        [f"{count} of them"] if count else []
    )


def test_a_line_of_markdown_keeps_its_hyphen(tmp_path):
    (tmp_path / "a.md").write_text("a hyper-\ntension of ﬁbres")
    assert read_document(tmp_path / "a.md", tmp_path)[0].text == "a hyper-\ntension of fibres"
