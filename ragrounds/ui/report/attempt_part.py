"""The part of a page that holds attempts: the browser's HTML, and the attempts as data that its script unpacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from ragrounds.evals.store.traces import Trace
from ragrounds.redaction import Redactor
from ragrounds.ui.report.payload import Payload, packed
from ragrounds.ui.report.scripts import asset


def attempt_part(
    traces: Iterable[Trace],
    order: Mapping[str, int],
    runs: Sequence[tuple[str, str]],
    hide: Redactor,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """The section of attempts, piece by piece. The page needs the script and the style of
    :mod:`ragrounds.ui.report.scripts` for it.

    Args:
        traces: of these runs, in any order; those of one question beside each other make a smaller page.
        order: question id → its place in the list.
        runs: run id and name, in the order of the page.
        hide: takes keys out of texts.
        on_progress: called with the number of attempts written so far.
    """
    yield asset("browser.html")
    payload = Payload(order, {run: number for number, (run, _) in enumerate(runs)}, hide)
    count = 0
    for chunk in payload.chunks(traces):
        yield _block(f"chunk-{count}", chunk)
        count += 1
        if on_progress:
            on_progress(payload.attempts)
    yield _block("index", payload.index())
    yield _block("about", packed({"runs": [list(run) for run in runs], "chunks": count}, hide))


def attempt_link(run: str, question_id: str, epoch: int = 0) -> str:
    """The fragment that opens an attempt in a page: ``#a=RUN/QUESTION``, with the epoch where it is not the first."""
    parts = [run, question_id, *([str(epoch)] if epoch else [])]
    return "#a=" + "/".join(quote(part, safe="") for part in parts)


def _block(name: str, data: str) -> str:
    return f'<script type="text/plain" id="{name}">{data}</script>\n'
