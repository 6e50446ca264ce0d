"""What the tests of the search tools share."""

import json

import pytest


@pytest.fixture
def beir(tmp_path):
    """Write a BEIR folder: `beir([(id, title, text), …])` gives the corpus text that names it."""

    def write(rows, name="tiny"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"_id": i, "title": title, "text": text}, ensure_ascii=False) for i, title, text in rows]
        (folder / "corpus.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return f"beir:{folder}"

    return write
