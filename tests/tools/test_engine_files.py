"""Damaged indexes: what is cut, lost or junk is seen when an index is opened, told in a line, and built again."""

import logging
import shutil

import embedding_doubles as doubles
import numpy as np
import pytest

from ragrounds.api import index
from ragrounds.base.errors import UserError
from ragrounds.tools.index import engine_files
from ragrounds.tools.retriever import open_searcher

_ROWS = [(f"d{n}", "", f"word{n} gout {'renal' * (n % 3)} w{n % 7}") for n in range(40)]
_DENSE = 'dense[model="import:embedding_doubles:Hashing",store=faiss]'
_SQ8 = 'dense[model="import:embedding_doubles:Hashing",store=faiss[index=sq8]]'


def cut(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 - 1)


def lengthen(path):
    path.write_bytes(path.read_bytes() * 2)


def junk(path):
    path.write_text("junk\n")


def remove(path):
    path.unlink()


def hits(spec, corpus, home):
    return [(p.id, p.score) for p in open_searcher(spec, corpus, home).find("word7 gout renal", 5)]


def engine(home, kind):
    (folder,) = home.glob(f"indexes/*/{kind}-*")
    return folder


@pytest.mark.parametrize(
    ("kind", "name", "spoil", "said"),
    [
        ("bm25", "terms.bin", cut, "terms.bin has "),
        ("bm25", "rare/passages.u32", cut, "rare/passages.u32 has "),
        ("bm25", "hashes.u64", remove, "hashes.u64 is missing"),
        ("bm25", "rare", shutil.rmtree, "rare/codes.u8 is missing"),
        ("bm25", "engine.json", junk, "engine.json cannot be read"),
        ("dense", "vectors.f32", cut, "vectors.f32 has "),
        ("dense", "vectors.f32", lengthen, "vectors.f32 has 5,120 bytes, expected 2,560"),
        ("dense", "vectors.f32", remove, "vectors.f32 is missing"),
        ("dense", "engine.json", junk, "engine.json cannot be read"),
        ("faiss", "index.faiss", cut, "index.faiss has "),
        ("faiss", "index.faiss", remove, "index.faiss is missing"),
    ],
)
def test_a_damaged_index_is_told_and_built_again(beir, tmp_path, caplog, kind, name, spoil, said):
    if kind != "bm25":
        pytest.importorskip("faiss")
    spec = {"bm25": "bm25", "dense": _DENSE, "faiss": _SQ8}[kind]
    corpus = beir(_ROWS)
    whole = hits(spec, corpus, tmp_path)
    assert whole[0][0] == "d7"
    folder = engine(tmp_path, kind)
    spoil(folder / name)
    with caplog.at_level(logging.WARNING):
        assert hits(spec, corpus, tmp_path) == whole
    (told,) = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert said in told
    assert str(folder) in told
    assert "\n" not in told
    caplog.clear()
    assert hits(spec, corpus, tmp_path) == whole
    assert caplog.records == []


def test_vectors_that_are_left_are_not_made_again(beir, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    from ragrounds.tools.retrievers import dense

    monkeypatch.setattr(dense, "_BATCH", 5)
    monkeypatch.setattr(doubles.Hashing, "calls", [])
    whole = hits(_DENSE, beir(_ROWS), tmp_path)
    doubles.Hashing.calls.clear()
    cut(engine(tmp_path, "dense") / "vectors.f32")
    assert hits(_DENSE, beir(_ROWS), tmp_path) == whole
    assert 0 < sum(doubles.Hashing.calls) < len(_ROWS)


def test_vectors_of_others_are_not_replaced_by_a_models(beir, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    vectors = np.array([doubles.Hashing().embed_query(text) for _, _, text in _ROWS], dtype=np.float32)
    np.save(tmp_path / "d.npy", vectors)
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(row[0] for row in _ROWS))
    given = {"retrievers": _DENSE, "vectors": [tmp_path / "d.npy"], "ids": [ids], "home": tmp_path, "progress": False}
    index.build("mine", beir(_ROWS), **given)
    monkeypatch.setattr(doubles.Hashing, "calls", [])
    whole = hits(_DENSE, "mine", tmp_path)
    (path,) = tmp_path.rglob("vectors.f32")
    cut(path)
    with pytest.raises(UserError, match=r"vectors\.f32 has .* taken from files: give `ragrounds index build"):
        open_searcher(_DENSE, "mine", tmp_path)
    index.build("mine", beir(_ROWS), **given)
    assert hits(_DENSE, "mine", tmp_path) == whole
    assert doubles.Hashing.calls == []


def test_what_cannot_be_removed_is_said_with_the_folder(beir, tmp_path, monkeypatch):
    corpus = beir(_ROWS)
    hits("bm25", corpus, tmp_path)
    folder = engine(tmp_path, "bm25")
    cut(folder / "terms.bin")
    (folder / "building.lock").unlink()
    (folder / "building.lock").mkdir()  # as where nothing may be written: root may write anywhere
    with pytest.raises(UserError, match=rf"damaged \(terms\.bin has .* `rm -r {folder}`"):
        open_searcher("bm25", corpus, tmp_path)


def test_only_what_stays_is_noted(tmp_path):
    for name in ("a.bin", "rare/b.u8", "part-1/c.u8", "run-0/d.u32", "counting.json", "e.part", "engine.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")
    engine_files.write_manifest(tmp_path, engine_files.IndexManifest(format=1, index="", version="", passages=1))
    assert engine_files.damage(tmp_path) is None
    for name in ("part-1", "run-0"):
        shutil.rmtree(tmp_path / name)
    for name in ("counting.json", "e.part"):
        (tmp_path / name).unlink()
    assert engine_files.damage(tmp_path) is None
    (tmp_path / "rare/b.u8").write_bytes(b"")
    assert engine_files.damage(tmp_path) == "rare/b.u8 has 0 bytes, expected 2"
