"""Vectors taken from files in place of embedding, and from other versions of an index."""

import json

import embedding_doubles as doubles
import numpy as np
import pytest

pytest.importorskip("faiss")

from ragrounds.api import index
from ragrounds.base.errors import UserError
from ragrounds.tools.retriever import open_searcher

_SPEC = 'dense[model="import:embedding_doubles:Hashing",store=faiss]'
_ROWS = [(f"part_{n}", "", f"word{n} gout {'renal' * (n % 3)}") for n in range(12)]


@pytest.fixture(autouse=True)
def _no_calls(monkeypatch):
    monkeypatch.setattr(doubles.Hashing, "calls", [])


def made(rows=_ROWS):
    """The vectors that the model would make."""
    return np.array([doubles.Hashing().embed_query(text) for _, _, text in rows], dtype=np.float32)


def test_published_shards_are_taken_by_their_names(beir, tmp_path):
    shards = tmp_path / "embedding"
    shards.mkdir()
    np.save(shards / "part.npy", made().astype(np.float16))
    built = index.build("mine", beir(_ROWS), retrievers=_SPEC, vectors=[shards], home=tmp_path, progress=False)
    assert built.retrievers == (_SPEC.replace('"', ""),)
    assert doubles.Hashing.calls == []
    found = open_searcher(_SPEC, "mine", tmp_path).find("word7 gout renal", 3)
    alone = open_searcher(_SPEC, beir(_ROWS), tmp_path).find("word7 gout renal", 3)
    assert [p.score for p in found] == pytest.approx([p.score for p in alone], abs=2e-3)


@pytest.mark.parametrize("kind", ["json", "jsonl", "txt", "npy"])
def test_ids_in_a_file_and_in_any_order(beir, tmp_path, kind):
    order = np.random.default_rng(3).permutation(len(_ROWS))
    halves = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, part in zip(halves, np.split(made()[order], [5]), strict=True):
        np.save(path, part)
    names, ids = [_ROWS[n][0] for n in order] + ["not_there"], tmp_path / f"ids.{kind}"
    np.save(halves[1], np.vstack([np.load(halves[1]), np.ones((1, 16), np.float32)]))
    if kind == "npy":
        np.save(ids, np.array(names))
    else:
        texts = {"json": json.dumps(names), "jsonl": "\n".join(json.dumps({"id": one}) for one in names)}
        ids.write_text(texts.get(kind, "\n".join(names)))
    index.build("mine", beir(_ROWS), retrievers=_SPEC, vectors=halves, ids=[ids], home=tmp_path, progress=False)
    mine, plain = open_searcher(_SPEC, "mine", tmp_path), open_searcher(_SPEC, beir(_ROWS), tmp_path)
    for query in ("word3 gout", "renal word11"):
        assert [(p.id, p.score) for p in mine.find(query, 5)] == [(p.id, p.score) for p in plain.find(query, 5)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: np.save(path, made()[:9]), r"3 of 12 passages have no vector.*'part_10'"),
        (lambda path: np.save(path, made()[0]), r"shape \(rows, dimensions\)"),
        (lambda path: np.save(path, np.array([{"a": 1}], dtype=object)), "NumPy array"),
        (lambda path: path.write_bytes(b"junk"), "NumPy array"),
        (lambda path: np.save(path, np.full((12, 16), np.nan, np.float32)), "not finite"),
        (lambda path: None, "There are no vectors"),
    ],
)
def test_files_that_do_not_fit_are_told(beir, tmp_path, change, reason):
    change(tmp_path / "part.npy")
    with pytest.raises(UserError, match=reason):
        index.build(
            "mine", beir(_ROWS), retrievers=_SPEC, vectors=[tmp_path / "part.npy"], home=tmp_path, progress=False
        )


def test_one_retriever_is_needed_and_ids_need_vectors(beir, tmp_path):
    np.save(tmp_path / "part.npy", made())
    given = {"vectors": [tmp_path / "part.npy"], "home": tmp_path, "progress": False}
    with pytest.raises(UserError, match="the model that made them"):
        index.build("mine", beir(_ROWS), **given)
    with pytest.raises(UserError, match="searches by vectors"):
        index.build("mine", beir(_ROWS), retrievers="bm25", **given)
    with pytest.raises(UserError, match="are for the rows of"):
        index.build("mine", beir(_ROWS), ids=["x"], home=tmp_path, progress=False)


def test_a_new_version_embeds_what_is_new(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for n in range(6):
        (folder / f"t{n}.txt").write_text(f"word{n} gout")
    index.build("mine", folder, retrievers=_SPEC, home=tmp_path, progress=False)
    assert sum(doubles.Hashing.calls) == 6
    (folder / "t6.txt").write_text("new words here")
    (folder / "t2.txt").write_text("changed gout")
    doubles.Hashing.calls.clear()
    index.build("mine", folder, retrievers=_SPEC, home=tmp_path, progress=False)
    assert sum(doubles.Hashing.calls) == 2
    fresh = index.build("fresh", folder, retrievers=_SPEC, home=tmp_path, progress=False)
    assert fresh.index.manifest.version == index.describe("mine", home=tmp_path).manifest.version
    for query in ("changed gout", "word4", "new words"):
        both = [open_searcher(_SPEC, name, tmp_path).find(query, 4) for name in ("mine", "fresh")]
        assert [(p.id, p.score) for p in both[0]] == [(p.id, p.score) for p in both[1]]
