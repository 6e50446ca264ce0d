"""A notebook: executed as it stands, progress in its cells, cells interrupted and resumed."""

from __future__ import annotations

import contextlib
import queue
import time
from pathlib import Path
from typing import Any

import pytest

from ragrounds.evals.store.store import Store
from tests.api.kernels import environment, kernel, texts
from tests.conftest import ROOT
from tests.servers.process import Running, openai_server

NOTEBOOK = ROOT / "docs" / "examples" / "first_steps.ipynb"
OWN = NOTEBOOK.with_name("own_systems.ipynb")
LIMIT = 12
IN_FLIGHT = 4


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels are told how to connect."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute(env=environment(tmp_path))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    last = {number: cell.outputs[-1]["data"] for number, cell in enumerate(code) if cell.outputs}
    shown, result = code[1].outputs[0]["data"], last[1]
    assert "20/20" in shown["text/html"]  # the progress, in its place
    assert "<table" in result["text/html"]
    assert result["text/plain"].startswith("<RunResult, frames: figures, pairs, ")
    assert last[2]["text/plain"] in ("'holds'", "'undecided'")
    assert "difference" in last[3]["text/html"]
    assert last[6]["text/plain"] == "0"  # nothing is asked again
    assert "vanilla_rag[top_k=8]" in last[7]["text/html"]


@pytest.mark.slow
def test_systems_of_ones_own_stand_in_one_table_and_are_replayed_without_a_server(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: the extra `llamaindex`")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(OWN, as_version=4)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute(env=environment(tmp_path))
    *_, table, found, replayed = [cell.outputs[-1]["data"] for cell in notebook.cells if cell.get("outputs")]
    assert all(name in table["text/html"] for name in ("three lines", "LlamaIndex", "vanilla_rag"))
    assert table["text/plain"].startswith("<RunResult, frames: figures, pairs, ")
    assert ":engine" in found["text/plain"]
    assert "vanilla_rag" in found["text/plain"]
    assert replayed["text/plain"] == "(0, True)"  # the server is gone


@pytest.mark.parametrize("path", [NOTEBOOK, OWN], ids=lambda path: path.stem)
def test_the_notebook_is_kept_without_outputs(path: Path) -> None:
    import nbformat  # here, not in each process that collects this file

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


def cell(server: Running, call: str) -> str:
    given = f'"sample", "direct", model="openai:plain", base_url="{server.url}", limit={LIMIT}, concurrency={IN_FLIGHT}'
    return f"result = {call}({given}); print(result.made, result.reused, result.ended)"


def attempts(home: Path) -> int:
    with Store(home / "runs") as store:
        return len(store.done(store.runs()[0]))


@pytest.mark.slow
@pytest.mark.parametrize("call", ["await rr.arun", pytest.param("rr.run", marks=pytest.mark.weekly)])
def test_interrupted_twice_a_cell_stops_at_once_and_the_kernel_lives(tmp_path: Path, call: str) -> None:
    with openai_server("--latency", "600") as server, kernel(tmp_path) as notebook:
        notebook.run("import ragrounds as rr")
        number = notebook.start(cell(server, call))
        while server.stats()["asked"] < IN_FLIGHT:
            time.sleep(0.02)
        notebook.interrupt()
        notebook.until_said(number, "Finishing the calls in flight")
        notebook.interrupt()
        ended = notebook.finish(number)
        assert (ended["status"], ended["ename"]) == ("error", "Interrupted"), texts(ended)
        assert attempts(tmp_path) == 0
        # Ctrl-C is the kernel's own again.
        number = notebook.start("import time; print('asleep', flush=True); time.sleep(600)")
        notebook.until_said(number, "asleep")
        slept: dict[str, Any] = {}
        for _ in range(3):  # Python drops the exception of a signal that arrives inside a finaliser
            notebook.interrupt()
            with contextlib.suppress(queue.Empty):
                slept = notebook.finish(number, 15)
                break
        assert slept["ename"] == "KeyboardInterrupt"
