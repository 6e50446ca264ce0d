"""Reading corpora: layouts, compression, and what is said of lines that cannot be read."""

import gzip
import json

import pytest
import zstandard

from ragrounds.base.errors import UserError
from ragrounds.tools.corpora import corpus_source, is_source, passages

_BEIR = b'{"_id": "1", "title": "T", "text": "one"}\n\n{"_id": 2, "title": "", "text": "two", "metadata": {}}\n'


def _read(text, **options):
    return [passage for passage, _ in passages(corpus_source(text), **options)]


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress)]
)
def test_beir_folders_plain_and_compressed(tmp_path, ending, pack):
    (tmp_path / f"corpus.jsonl{ending}").write_bytes(pack(_BEIR))
    found = _read(f"beir:{tmp_path}")
    assert [(p.id, p.document, p.title, p.text) for p in found] == [("1", "1", "T", "one"), ("2", "2", "", "two")]


def test_medrags_pubmed_is_known_by_its_pmid(tmp_path):
    row = {"id": "pubmed23n0001_3", "title": "t", "content": "c", "contents": "t. c", "PMID": 21645374}
    (tmp_path / "pubmed23n0001.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    # MIRAGE's questions name abstracts by PMID (position of the gold passage, Figure 4).
    assert [(p.id, p.document) for p in _read(f"medrag:{tmp_path}")] == [("pubmed23n0001_3", "21645374")]


def test_r2med_and_medrag_fields(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"id": "a/b_0.txt", "text": "x"}\n')
    assert [(p.id, p.text) for p in _read(f"r2med:{tmp_path}")] == [("a/b_0.txt", "x")]
    chunks = tmp_path / "chunk"
    chunks.mkdir()
    (chunks / "b.jsonl").write_text('{"id": "s_1", "title": "T", "content": "c", "contents": "T. c"}\n')
    (chunks / "a.jsonl").write_text('{"id": "s_0", "title": "T", "content": "d", "document": "s"}\n')
    assert [(p.id, p.document, p.text) for p in _read(f"medrag:{chunks}")] == [("s_0", "s", "d"), ("s_1", "s_1", "c")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"_id": "3", "text": ', "truncated"),
        (b'{"title": "no id", "text": "x"}', "no id"),
        (b'{"_id": "", "text": "x"}', "no id"),
        (b'{"_id": "3", "title": "x"}', "no text"),
        (b'{"_id": "3", "text": ["x"]}', "text"),
        (b'{"_id": "3", "text": "\xff"}', "[Uu][Tt][Ff]-?8"),
        (b"[1]", "object"),
    ],
)
def test_a_bad_line_is_named_or_passed_over(tmp_path, line, reason):
    (tmp_path / "corpus.jsonl").write_bytes(_BEIR + line + b"\n" + b'{"_id": "9", "text": "nine"}\n')
    with pytest.raises(UserError, match=f"line 4 of .*corpus.jsonl: .*{reason}"):
        _read(f"beir:{tmp_path}")
    bad = []
    assert [p.id for p in _read(f"beir:{tmp_path}", bad=bad)] == ["1", "2", "9"]
    assert [item.line for item in bad] == [4]


def test_reading_goes_on_from_any_place(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"id": "{name}{n}", "text": "x"}}\n' for n in range(3)))
    origin = corpus_source(f"jsonl:{tmp_path}")
    whole = [(p.id, place) for p, place in passages(origin)]
    assert len(whole) == 6
    for number, (_, place) in enumerate(whole):
        assert [p.id for p, _ in passages(origin, start=place)] == [i for i, _ in whole[number + 1 :]]


@pytest.mark.parametrize(("ending", "head"), [(".gz", 30), (".zst", 12)])
def test_a_cut_or_foreign_archive_is_an_error(tmp_path, ending, head):
    packed = gzip.compress(_BEIR * 50) if ending == ".gz" else zstandard.ZstdCompressor().compress(_BEIR * 50)
    file = tmp_path / f"corpus.jsonl{ending}"
    file.write_bytes(packed[:head])
    if ending == ".gz":
        with pytest.raises(UserError, match=r"corpus.jsonl.gz"):
            _read(f"beir:{tmp_path}")
    file.write_bytes(b"not an archive at all")
    with pytest.raises(UserError, match=r"corpus\.jsonl"):
        _read(f"beir:{tmp_path}")


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(UserError, match=r"no .*nowhere"):
        corpus_source(f"beir:{tmp_path}/nowhere")
    with pytest.raises(UserError, match=r"holds no corpus\.jsonl"):
        corpus_source(f"beir:{tmp_path}")
    assert is_source("sample")
    assert is_source("beir:x")
    assert not is_source("pubmed")
