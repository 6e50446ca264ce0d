"""The screen of a command that judges, plays or carries out a study, at any size."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from ragrounds.base.records import Call, Verdict
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.progress import StudyProgress
from ragrounds.extensions.studies.study import open_study
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.judged import JudgeProgress
from ragrounds.ui.progress.screen import TaskDisplay
from tests.ui.drawn import drawn_lines


class Task(TaskDisplay):
    name = "ragrounds judge"

    def line(self) -> str:
        return "12 answers judged, 3.4/s, $1.00"

    def share(self) -> float:
        return 0.5


def drawn(width: int, height: int, said: Sequence[str] = ()) -> list[str]:
    console = SafeConsole(file=io.StringIO(), force_terminal=True, no_color=True, color_system=None)
    return drawn_lines(console, Task(io.StringIO()).picture(width, height, said), width, height)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60), (40, 12)])
def test_it_fits_and_says_what_ctrl_c_does(width: int, height: int) -> None:
    lines = drawn(width, height, ["a warning \x1b[2J"] * 9)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    assert lines[0].startswith(" ragrounds judge ")
    assert "12 answers judged" in lines[1]
    assert "━" in lines[2]
    assert "Ctrl-C" in lines[-1]
    assert all(line.isprintable() for line in lines)


async def test_after_a_ctrl_c_it_says_what_the_next_one_does() -> None:
    import os
    import signal

    ends: list[BaseException] = []
    with interruptible(ends):
        os.kill(os.getpid(), signal.SIGINT)
        import asyncio

        for _ in range(100):
            if ends:
                break
            await asyncio.sleep(0.01)
        assert drawn(120, 24)[-1].startswith("Stopping: finishing what is in flight")
    assert drawn(120, 24)[-1].startswith("Ctrl-C begins nothing more")


def test_no_terminal_means_no_screen() -> None:
    stream = io.StringIO()
    with Task(stream) as screen:
        assert not screen.is_open
    assert stream.getvalue() == ""


def judged(verdict: str, failed: bool = False, cost: float | None = 0.5) -> JudgedAnswer:
    call = Call(
        key="k", kind="model", role="judging", node="", actor="openai:grader", cost_uncached=cost, at=1.0, seconds=1.0
    )
    said = Verdict(question_id="q", judge="openai:grader[x=1]", axis="equivalent", first="run", outcome=verdict)
    return JudgedAnswer(scores=(), verdicts=(said,), calls=(call,), failed=failed)


def test_judging_counts_what_each_judge_says() -> None:
    stream = io.StringIO()
    with JudgeProgress(["a-run"], stream) as shown:
        for verdict in ("right", "right", "wrong", ""):
            shown.observe(judged(verdict))
    assert stream.getvalue() == ""
    assert "4 judgements of answers of a-run" in shown.line()
    assert "4 model calls, $2.00 paid" in shown.line()
    assert "1 unreadable verdict" in shown.line()
    shown.observe(judged("right", cost=None))
    assert "unknown paid" in shown.line()


def test_cells_of_a_study_that_lack_the_same_have_one_line() -> None:
    study, out = open_study("mirage-table6"), io.StringIO()
    cells = list(study.cells())[:7]
    with StudyProgress(out, lambda: 1.0) as shown:
        shown.begun(study, len(cells))
        for place, cell in enumerate(cells):
            why = "" if place == 3 else f"there is no {'key' if place % 2 else 'vllm'}"
            shown.cell(cell, CellResult(state="lacks" if why else "to do", why=why))
    told = out.getvalue().splitlines()
    assert sum("there is no vllm" in line for line in told) == 2
    assert [line.split(" ")[0] for line in told[1:-2]] == ["1/7", "2/7", "4/7"]
    assert told[-2:] == [
        "3 more cells: not run: there is no vllm",
        "1 more cell: not run: there is no key",
    ]
