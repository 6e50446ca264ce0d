"""Recorded calls as a text file that is kept in version control, and a store that answers from one."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ragrounds.api.workspace import RunsGiven, chosen_settings, made_beside, make_folder, open_store, opened_runs
from ragrounds.base.settings import Settings
from ragrounds.evals.store.care.journal_file import adopt_journal, read_journal_file, recorded_text


class JournalFile(Struct, frozen=True, kw_only=True):
    """A journal file that was written or read."""

    path: Path
    calls: int
    size: int
    """Bytes."""
    changed: bool
    """Whether the file is another one than before; of one that was read always False."""


def write_journal(
    runs: RunsGiven,
    path: str | Path,
    *,
    keep: bool = False,
    every: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> JournalFile:
    """Write the calls that runs refer to into a text file, sorted, so that equal calls give equal bytes. A file that is
    there is replaced; where nothing has changed it is not touched.

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        path: the file.
        keep: the calls that the file holds already stay in it.
        every: the store's other calls are written, too, such as those of a run that was broken off.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown run; a file that cannot be written or, with `keep`, read.
    """
    file = Path(path)
    with opened_runs(runs, chosen_settings(settings, home)) as (store, found):
        text = recorded_text(store, found, every)
    if keep and file.is_file():
        text = text.joined(read_journal_file(file)[0])
    data = bytes(text)
    try:
        changed = file.read_bytes() != data
    except OSError:
        changed = True
    if changed:
        make_folder(file.parent)
        with made_beside(file, force=True) as beside:
            beside.write_bytes(data)
    return JournalFile(path=file, calls=len(text.calls), size=len(data), changed=changed)


def read_journal(path: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> JournalFile:
    """Let the store answer from a file of :func:`write_journal`: a run with ``journal="replay"`` then sends nothing.

    Args:
        path: the file.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: not such a file, or one that is damaged; the store cannot be written.
    """
    file = Path(path)
    text, arrived = read_journal_file(file)
    with open_store(chosen_settings(settings, home)) as store:
        adopt_journal(store, text, arrived)
    return JournalFile(path=file, calls=len(arrived), size=file.stat().st_size, changed=False)
