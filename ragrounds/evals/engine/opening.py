"""Calls that foreign systems make while they are imported or built, such as the embeddings of their documents.

They belong to no attempt. They are journaled all the same, so that they are not paid for twice and a replay needs no
server; their number and cost are reported once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ragrounds.agents.systems.opening import OPENED, OPENING, REFUSED
from ragrounds.base.errors import StopRun
from ragrounds.base.http import in_background
from ragrounds.base.records import Question
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.recorded_randomness import OPENINGS, RecordedRandomness
from ragrounds.evals.store.journal import Mode, StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import Price
from ragrounds.prompts.loader import PromptFolder

if TYPE_CHECKING:
    from ragrounds.evals.engine.recording.recorder import AttemptRecorder

_NOTHING = Question(id="opening", benchmark="opening/opening", text="")


class OpeningRecorder:
    """Recorder of calls that are made while systems are opened, on the event loop in the background."""

    def __init__(self, store: Store, mode: Mode, prices: Mapping[str, Price]) -> None:
        self._store, self._mode, self._prices = store, mode, prices
        self._closed = False
        self._journal: StoreJournal | None = None
        self._recorder: AttemptRecorder | None = None
        self._context: AttemptContext | None = None
        self._randomness: dict[str, RecordedRandomness] = {}
        self._missed: dict[str, BaseException] = {}
        """Reason why the contents of a file or module cannot be replayed, by its name. A module remains imported."""

    @contextlib.contextmanager
    def watched(self, module: str) -> Iterator[None]:
        """Record the calls, clock values and random values of the block, which opens the contents of a file or module.

        Raises:
            StopRun: a call is missing from the journal in a replay.
        """
        # The imports are local, here and below: nothing is watched unless a user's system is opened.
        from ragrounds.recorder.watch import installed
        from ragrounds.recorder.wire import WATCHER, Unsent

        if WATCHER.get() is not None or self._closed:  # inside an attempt, or inside another import
            yield
            return
        if module in self._missed:
            raise self._missed[module]
        recorder = self._recorder = self._recorder or in_background(self._make())
        in_background(self._draw(module))
        with installed(closed=recorder.closed):
            before = WATCHER.set(recorder)
            failed: BaseException | None = None
            try:
                yield
            except (Exception, Unsent) as error:
                failed = error
            finally:
                WATCHER.reset(before)
                in_background(self._drew(module))
        # Other systems are still to be opened, so the recorder forgets why this one was stopped.
        stop, recorder.stop = recorder.stop, None
        if stop is not None and failed is None:  # the import succeeded although a call was refused
            self._missed[module] = stop
            REFUSED.add(module)
        if stop is not None:
            raise stop from failed
        if isinstance(failed, Unsent):
            raise StopRun(str(failed)) from failed
        if failed is not None:
            raise failed

    def words(self) -> str:
        """Return a sentence about the calls that were made; empty if there were none."""
        recorder, context = self._recorder, self._context
        if recorder is None or context is None:
            return ""
        sentences = []
        if recorder.calls:
            paid = context.spent.cost_paid
            cost = "cost unknown" if paid is None else f"${paid:.4g}"
            sentences.append(
                f"Model calls made while systems were opened: {recorder.calls:,} ({cost}); they are journaled and "
                "count for no attempt"
            )
        if recorder.missed:
            missed_words = ", ".join(f"{name} ({number})" for name, number in recorder.missed.most_common(5))
            sentences.append(f"Not recorded while systems were opened: {missed_words}")
        return f"{'. '.join(sentences)}." if sentences else ""

    def close(self) -> None:
        """Close the journal."""
        self._closed = True
        if self._recorder is not None:
            in_background(self._close())

    async def _close(self) -> None:
        if self._recorder:
            self._recorder.close()
        if self._journal:
            self._journal.close()

    async def _draw(self, module: str) -> None:
        """Record the random values of the module, and serve those that it used before."""
        assert self._journal is not None
        assert self._context is not None
        if module in OPENED and module not in self._randomness:
            randomness = RecordedRandomness(module, "opening", ("opening", module))
            self._randomness[module] = OPENINGS[module] = await randomness.open(self._journal, OPENED[module])
        self._context.recorded_randomness = self._randomness.get(module)

    async def _drew(self, module: str) -> None:
        if (randomness := self._randomness.get(module)) is not None and self._journal is not None:
            randomness.flush(self._journal)

    async def _make(self) -> AttemptRecorder:
        from ragrounds.evals.engine.recording.recorder import AttemptRecorder

        self._journal = StoreJournal(self._store, self._mode)
        self._context = AttemptContext(
            item=_NOTHING,
            epoch=0,
            parameters={},
            models={},
            searcher=None,
            prompts=PromptFolder(None, ""),
            journal=self._journal,
            prices=self._prices,
        )
        return AttemptRecorder(self._context, self._journal)


@contextlib.contextmanager
def opening_recorded(
    store: Store, mode: Mode, prices: Mapping[str, Price], tell: Callable[[str], None]
) -> Iterator[OpeningRecorder]:
    """Record the calls that systems make while they are opened, until the block ends; `tell` is then called with a
    summary.

    Raises:
        StopRun: a call is missing from the journal in a replay.
    """
    recorder = OpeningRecorder(store, mode, prices)
    before = OPENING.set(recorder.watched)
    try:
        yield recorder
    finally:
        with contextlib.suppress(ValueError):  # ended in another context
            OPENING.reset(before)
        if words := recorder.words():
            tell(words)
        recorder.close()
