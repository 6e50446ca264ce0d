"""Recorded calls as a text file for version control, and a store that answers from such a file."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ragrounds.api.workspace import (
    RunsGiven,
    chosen_settings,
    make_folder,
    open_selected_runs,
    open_store,
    replaced_file,
)
from ragrounds.base.settings import Settings
from ragrounds.extensions.gate.journal_file import adopt_journal, read_journal_file, recorded_text


class JournalFile(Struct, frozen=True, kw_only=True):
    """Journal file that was written or read."""

    path: Path
    calls: int
    size: int
    """Size in bytes."""
    changed: bool
    """True if the file's content has changed; always False after reading."""


def write_journal(
    runs: RunsGiven,
    path: str | Path,
    *,
    keep: bool = False,
    every: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> JournalFile:
    """Write the calls of runs into a text file, sorted, so that equal calls give equal bytes.

    An existing file is replaced; if nothing has changed, it is not touched.

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        path: the file.
        keep: True to keep the calls that are already in the file.
        every: True to write the store's other calls, too, such as those of an interrupted run.
        home, settings: the folder of the store, and all settings; by default the user's.

    Raises:
        UserError: a run is unknown, or the file cannot be written or, with `keep`, read.
    """
    file = Path(path)
    with open_selected_runs(runs, chosen_settings(settings, home)) as (store, opened):
        text = recorded_text(store, opened, every)
    if keep and file.is_file():
        text = text.joined(read_journal_file(file)[0])
    data = bytes(text)
    try:
        changed = file.read_bytes() != data
    except OSError:
        changed = True
    if changed:
        make_folder(file.parent)
        with replaced_file(file, force=True) as temporary:
            temporary.write_bytes(data)
    return JournalFile(path=file, calls=len(text.calls), size=len(data), changed=changed)


def read_journal(path: str | Path, *, home: str | Path | None = None, settings: Settings | None = None) -> JournalFile:
    """Let the store answer from a file of :func:`write_journal`: a run with ``journal="replay"`` then sends nothing.

    Args:
        path: the file.
        home, settings: the folder of the store, and all settings; by default the user's.

    Raises:
        UserError: the file is not a journal or is damaged, or the store cannot be written.
    """
    file = Path(path)
    text, arrived = read_journal_file(file)
    with open_store(chosen_settings(settings, home)) as store:
        adopt_journal(store, text, arrived)
    return JournalFile(path=file, calls=len(arrived), size=file.stat().st_size, changed=False)
