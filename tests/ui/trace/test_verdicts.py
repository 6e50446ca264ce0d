"""What judges said of an answer stands in its trace, as seen from that answer."""

from __future__ import annotations

from pathlib import Path

from ragrounds.evals.store.arenas import answer_verdicts
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.loaded import LoadedAttempt
from tests.extensions.arena.staging import Stage, by_strength, stage
from tests.judges.doubles import Scripted


async def test_each_side_is_told_its_own(tmp_path: Path) -> None:
    with stage(tmp_path, count=2) as store:
        staged = Stage(store, [Scripted(by_strength)])
        await staged.play()
        for name, expected in (("strong", {"won"}), ("weak", {"lost"}), ("middle", {"won", "lost"})):
            found = answer_verdicts(store, f"{name}-1", "q1")
            assert len(found) == 4  # two others, both orders
            assert {one.shown for one in found} == {"first", "second"}
            assert {said for one in found for said in one.axes.values()} == expected
            assert all(list(one.axes) == ["usefulness", "knowledge"] for one in found)
            assert name not in {one.against for one in found}
        assert answer_verdicts(store, "strong-1", "q1", epoch=1) == []
        assert answer_verdicts(store, "strong-1", "q99") == []


async def test_the_detail_shows_axes_and_the_raw_text(tmp_path: Path) -> None:
    with stage(tmp_path, count=2) as store:
        await Stage(store, [Scripted(by_strength)]).play()
        run = next(run for run in store.runs() if run.agent == "strong")
        pages = Pages(store, [run])
        opened = LoadedAttempt(pages, pages.read([1])[0])
        text = "\n".join(block.text for block in detail(opened, opened.root))
        assert "against weak, shown second, judged by" in text
        assert "usefulness: won" in text
        assert any(opened.recorded(call).reply.text in text for one in opened.answer_verdicts for call in one.calls)  # type: ignore[union-attr]


def test_a_store_without_arenas_tells_nothing(store: Store) -> None:
    assert answer_verdicts(store, "plain-run", "quiz/000") == []
