"""`ragrounds list retrievers`."""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from typer.testing import CliRunner

from ragrounds.cli.entry import command_line
from ragrounds.tools.index.cards import cards


def test_every_card_is_listed_with_what_is_missing(monkeypatch, tmp_path):
    installed = ModuleType("sentence_transformers")  # as where the extra `local` is installed
    installed.__spec__ = ModuleSpec("sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", installed)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = json.loads(
        CliRunner().invoke(command_line(), ["list", "retrievers", "--json"], catch_exceptions=False).stdout
    )
    assert [card["name"] for card in found["cards"]] == list(cards())
    by_name = {card["name"]: card for card in found["cards"]}
    assert "OPENAI_API_KEY" in by_name["openai-3-large"]["missing"]
    assert not by_name["medcpt"]["usable"]
    snapshot = tmp_path / "models--BAAI--bge-large-en-v1.5" / "snapshots" / "x"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    text = CliRunner().invoke(command_line(), ["list", "retrievers"], catch_exceptions=False).stdout
    text = " ".join(text.split())
    for said in ("bm25 BM25 as Lucene's", "models here: bge-large-en", "models not here: openai-3-large (the env"):
        assert said in text
    about = CliRunner().invoke(command_line(), ["list", "retrievers", "rrf"], catch_exceptions=False).stdout
    assert "rrf[a=bm25,b=medcpt" in about


def test_weights_that_are_here_are_usable(monkeypatch, tmp_path):
    from ragrounds.tools.index import cards as module

    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    card = cards()["medcpt"]
    for model in ("MedCPT-Query-Encoder", "MedCPT-Article-Encoder"):
        assert "weights" in module.missing(card)
        snapshot = tmp_path / f"models--ncbi--{model}" / "snapshots" / "x"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
    assert module.missing(card) == ""
