"""The attempts of some runs of a ranking: with their texts, or as digests where these may not be given on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ragrounds.evals.benchmarks.licences import TextLicence
from ragrounds.evals.store.traces import Trace
from ragrounds.redaction import Redactor
from ragrounds.ui.report.attempt_part import attempt_part
from ragrounds.ui.report.html_tables import text
from ragrounds.ui.report.page import head, page_style
from ragrounds.ui.report.scripts import page_script


def attempt_page(
    title: str,
    about: Sequence[str],
    traces: Iterable[Trace],
    order: Mapping[str, int],
    runs: Sequence[tuple[str, str]],
    links: Sequence[tuple[str, str]],
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """The page, part by part. It asks nothing of any network.

    Args:
        title: of the page.
        about: what a reader must know, a paragraph each.
        traces: as they are published.
        order: question id, as it is published → its place.
        runs: run id and name.
        links: label and relative address of other pages.
        on_progress: called with the number of attempts written so far.
    """
    hide, script = Redactor(), page_script(attempts=True)
    yield head(hide(title), [], page_style(), script, links)
    yield hide("".join(f"<p>{text(line)}</p>" for line in about))
    yield from attempt_part(traces, order, runs, hide, on_progress)
    yield f"</main>\n<script>{script}</script>\n</body></html>\n"


def licence_lines(licences: Sequence[TextLicence], free: frozenset[str]) -> list[str]:
    """Whose texts these are, and under which licence they are given on."""
    return [
        f"Questions and answers of {one.dataset}: licence {one.license}{f', {one.source}' if one.source else ''}."
        for one in licences
        if one.dataset in free
    ]
