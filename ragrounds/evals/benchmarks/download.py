"""Fetching a dataset's files from its public source: resumable, checked by size and hash, registered when complete.

Only files that a card lists are fetched, and only on request. A part that was loaded stays, and the next try continues
at its end if the server supports it.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.files import make_home
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.cards import RemoteFile, card, remote_files
from ragrounds.evals.benchmarks.registry import file_sha256, register

Progress = Callable[[str, int, int], None]
"""Callback with a file's name, the number of bytes received, and the file's size in bytes."""
_BLOCK = 1 << 16
_SECONDS = 60.0
"""Seconds without data after which a connection is given up."""


def fetch(name: str, home: Path, progress: Progress = lambda name, received, size: None) -> Benchmark:
    """Fetch every file of a dataset's card and register the dataset under `home`.

    A dataset that is a part of its family's file is fetched with it.

    Raises:
        UserError: the card lists no files, the network failed, or a file is not the one the card describes.
    """
    dataset_card, files = card(name), remote_files(name)
    if not files:
        reason = dataset_card.missing or "Its card has no hash of the files, so the download could not be checked."
        raise UserError(
            f"{name!r} cannot be fetched. {reason} Its home: {dataset_card.source}. "
            f"Get the files there and add them with `ragrounds data add {name} PATH`."
        )
    owner = files[0].of
    folder = home / "downloads" / owner.replace("/", "--")
    make_home(home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}. Choose another home with RAGROUNDS_HOME.") from None
    for file in files:
        _fetch(file, folder, progress)
    return register(owner, folder, home)


def _fetch(file: RemoteFile, folder: Path, progress: Progress) -> None:
    target, part = folder / file.name, folder / f"{file.name}.part"
    if target.is_file() and file_sha256(target) == file.sha256:
        progress(file.name, file.bytes, file.bytes)
        return
    try:
        if not part.is_file() or part.stat().st_size != file.bytes:
            _download(file, part, progress)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        received = part.stat().st_size if part.is_file() else 0
        raise UserError(
            f"Cannot fetch {file.url}: {reason}. {received:,} of {file.bytes:,} bytes are saved; the same command "
            f"resumes. Or download it yourself and use `ragrounds data add {file.of} PATH`."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot write {part}: {error.strerror}.") from None
    size, digest = part.stat().st_size, file_sha256(part)
    if size != file.bytes or digest != file.sha256:
        part.unlink()
        raise UserError(
            f"{file.url} is not the file that the card of {file.of} describes: expected {file.bytes:,} bytes with "
            f"SHA-256 {file.sha256[:12]}…, got {size:,} bytes with {digest[:12]}…. It was deleted; has the dataset "
            "a new release?"
        )
    part.replace(target)


def _download(file: RemoteFile, part: Path, progress: Progress) -> None:
    received = part.stat().st_size if part.is_file() else 0
    if received > file.bytes:
        received = 0
    if not file.url.startswith(("https://", "http://")):
        raise UserError(f"The address {file.url!r} is neither https nor http.")
    headers = {"Range": f"bytes={received}-"} if received else {}
    request = urllib.request.Request(file.url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        is_resumed = received > 0 and answer.status == http.client.PARTIAL_CONTENT
        if not is_resumed:
            received = 0
        with part.open("ab" if is_resumed else "wb") as target:
            while block := answer.read(_BLOCK):
                target.write(block)
                received += len(block)
                progress(file.name, received, file.bytes)
                if received > file.bytes:
                    return  # a longer file cannot be the file of the card; no need to load all of it
    if received < file.bytes:
        raise ConnectionError("the connection ended too soon")
