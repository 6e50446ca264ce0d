"""A worker of a spread replay: an ordinary pool of attempts that gets its questions over a line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.attempting import Attempter
from ragrounds.evals.engine.distributed.lines import Post
from ragrounds.evals.engine.distributed.messages import (
    Enough,
    Failed,
    Given,
    Hello,
    Over,
    Share,
    Told,
    Wanted,
    encode,
    to_worker,
)
from ragrounds.evals.engine.interrupting import Interrupted
from ragrounds.evals.engine.planning import makeup, opened
from ragrounds.evals.engine.pool import run_pool
from ragrounds.evals.engine.replay import no_uploads
from ragrounds.evals.engine.slots import Slots
from ragrounds.evals.engine.strands import Ended, Finished, Piece, Strand
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.packing import storable
from ragrounds.evals.store.store import Store
from ragrounds.models.traffic import flows, set_share

Inbox = asyncio.Queue[bytes | None]
"""Frames from the leader; ``None``: the line is cut, nobody waits for this worker any more."""


async def serve(inbox: Inbox, post: Post) -> None:
    """Work until told that it is enough, or until the line is cut: then at once, whatever is in flight."""
    frame = await inbox.get()
    hello = None if frame is None else to_worker(frame)
    if not isinstance(hello, Hello):
        return
    try:
        await _work(hello, inbox, post)
    except UserError as error:
        post(encode(Failed(str(error))))
    post(encode(Over()))


class _Desk:
    """Where a worker's pool gets its pieces from (contract: :class:`ragrounds.evals.engine.strands.Source`)."""

    def __init__(self, strands: Sequence[Strand], journal: StoreJournal, post: Post) -> None:
        self._strands = strands
        self._places = {strand.run.id: place for place, strand in enumerate(strands)}
        self._journal = journal
        self._post = post
        self._given: asyncio.Queue[Given | None] = asyncio.Queue()
        self._numbers: dict[tuple[str, str, int], int] = {}

    def put(self, given: Given | None) -> None:
        """A piece has come; ``None``: no more will."""
        self._given.put_nowait(given)

    async def next(self) -> Piece | None:
        self._post(encode(Wanted()))
        given = await self._given.get()
        if given is None:
            self._given.put_nowait(None)  # for whoever asks again
            return None
        strands = tuple(self._strands[place] for place in given.strands)
        for strand in strands:
            self._numbers[strand.run.id, given.question.id, given.epoch] = given.number
        return Piece(given.question, given.gold, given.epoch, strands)

    def over(self, finished: Finished) -> None:
        """The leader hears of what is written."""

    def hear(self, finished: Finished) -> None:
        attempt, run = finished.attempt, finished.run.id
        told = Told(
            number=self._numbers.pop((run, attempt.question_id, attempt.epoch)),
            strand=self._places[run],
            attempt=storable(replace(attempt, events=())),
            scores=tuple(storable(score) for score in finished.scores),
            tokens=finished.made,
            made=self._journal.made,
            reused=self._journal.reused,
            flows=tuple(flows()),
        )
        self._post(encode(told))


async def _work(hello: Hello, inbox: Inbox, post: Post) -> None:
    no_uploads()
    set_share(hello.share)
    _stand(hello)
    ends: list[BaseException] = []
    with Store(Path(hello.home), hello.store) as store:
        strands = _strands(hello)
        journal, slots = StoreJournal(store, hello.mode), Slots(hello.slots)
        desk = _Desk(strands, journal, post)
        attempter = Attempter(store, journal, strands, scorers_for)

        async def attempting(strand: Strand, piece: Piece, ended: Ended) -> Finished:
            try:
                return await attempter(strand, piece, ended)
            except UserError as error:
                post(encode(Failed(str(error))))  # now: what is in flight here may take its time
                raise

        async def listening() -> None:
            while (frame := await inbox.get()) is not None:
                match to_worker(frame):
                    case Given() as given:
                        desk.put(given)
                    case Share() as changed:
                        slots.resize(changed.slots)
                        set_share(changed.share)
                    case Enough(now=now):
                        if now:
                            ends.append(Interrupted("The leader ended the run."))
                        desk.put(None)

        pool = asyncio.ensure_future(run_pool(desk, attempting, slots, ends))
        listener = asyncio.ensure_future(listening())
        try:
            await asyncio.wait({pool, listener}, return_when=asyncio.FIRST_COMPLETED)
            if pool.done():
                pool.result()
        finally:
            for task in (pool, listener):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            for model in {id(model): model for strand in strands for model in strand.models.values()}.values():
                await model.close()
            journal.close()


def _stand(hello: Hello) -> None:
    """Where the leader stands, so that files are found by the same names."""
    with contextlib.suppress(OSError):  # another machine may not have the folder, and may not need it
        os.chdir(hello.folder)
    sys.path.extend(place for place in hello.path if place not in sys.path)


def _strands(hello: Hello) -> list[Strand]:
    """The leader's strands, opened here.

    Raises:
        StopRun: they would be other agents here than where the run was planned.
    """
    strands = []
    for run, one in zip(hello.runs, opened(hello.recipe, Path(hello.home)), strict=True):
        here = makeup(one.agent, one.models, one.searcher)
        differing = [key for key, value in here.items() if _plain(value) != _plain(run.identity.get(key))]
        if differing:
            raise StopRun(
                f"The agent {one.agent.spec!r} differs on {os.uname().nodename} from what the run {run.id} was planned "
                f"with, in: {', '.join(differing)}. Every machine needs the same version, prompts, graphs and corpora."
            )
        strands.append(Strand(run, one.agent, one.models, one.searcher, hello.recipe.prices))
    return strands


def _plain(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
