"""Compare published pages with the pages that a bundle's records give.

The code that made the bundle renders the same pages again, byte for byte. Other code may word and draw otherwise: then
names, figures and their order and signs are compared, and what a sentence denies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.board import (
    BoardRanking,
    attempt_pages,
    comparison_options,
    comparison_page,
)
from ragrounds.extensions.publishing.consistency import Derivation
from ragrounds.extensions.publishing.index_page import ranking_section
from ragrounds.extensions.publishing.leaderboard import Ranking
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.report.page import report_page

_CONTEXT = 60
"""Number of characters of a page that a difference shows."""
_SECTION = r'<section(?: class="\w+")? id="{}">.*?</section>\n'
_NOT_IN_BUNDLE = re.compile(
    # These parts depend on steps, prompts and notes, which no bundle has.
    "|".join(_SECTION.format(name) for name in ("behaviour", "judges", "arena", "limitations"))
    + r"|<nav .*?</nav>|<h3>Why answers are not right</h3>.*?(?=</section>)"
    + r'|<p>[\d,]+ notes?: <a href="#limitations">Limitations</a>\.</p>',
    re.DOTALL,
)
_CELLS = re.compile(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", re.DOTALL)
_DENIALS = ("not", "no", "none", "nor", "neither", "without", "worse", "better")


def compare_pages(
    store: Store, ranking: Ranking, free: frozenset[str], index: Path, seed: int, derivation: Derivation
) -> None:
    """Compare the ranking on a leaderboard, and the page of its comparison next to it, with the derived ones.

    Args:
        store: the store made from the bundle's records.
        ranking: the derived ranking.
        free: datasets whose texts the bundle shows.
        index: the leaderboard.
        seed: seed of every bootstrap.
        derivation: gets differences.
    """
    attempts, page = attempt_pages(ranking), comparison_page(ranking)
    entry = BoardRanking(ranking=ranking, page=page, attempts=attempts, free=free)
    published = re.search(_SECTION.format(re.escape(ranking.key)), read_text(index), re.DOTALL)
    if published is None:
        derivation.notes.append(f"{index} holds no ranking {ranking.key!r}: it was not looked at.")
        return
    section = ranking_section(entry, "licensed")
    if not derivation.same_code:
        names = list(agent_names(ranking.comparison).values())
        _compare_contents(published[0], section, names, index.name, derivation)
        derivation.cannot_show("that the pictures, and the page of the comparison, are those of these figures")
        return
    _compare_bytes(published[0], section, index.name, derivation)
    try:
        comparison = read_text(index.with_name(page))
    except UserError:
        derivation.notes.append(f"{index.with_name(page)} does not exist: it was not looked at.")
        return
    parts = report_page(store, ranking.runs, ranking.comparison, comparison_options(attempts, seed))
    _compare_bytes(_NOT_IN_BUNDLE.sub("", comparison), _NOT_IN_BUNDLE.sub("", "".join(parts)), page, derivation)
    derivation.cannot_show(f"of {page}: what agents did, likely causes, judges, arena and limitations")


def _compare_bytes(published: str, derived: str, name: str, derivation: Derivation) -> None:
    derivation.printed += sum(bool(re.search(r"\d", cell)) for cell in _CELLS.findall(derived))
    if published != derived:
        pairs = enumerate(zip(published, derived, strict=False))
        at = next((n for n, (a, b) in pairs if a != b), min(len(published), len(derived)))
        start = max(0, at - _CONTEXT // 3)
        here, there = (" ".join(text[start : start + _CONTEXT].split()) for text in (published, derived))
        derivation.differs(f"{name}: {here!r} is published, the attempts give {there!r}")


def _compare_contents(published: str, derived: str, names: list[str], page: str, derivation: Derivation) -> None:
    """Compare tables cell by cell, in the columns that both have, and sentences by their figures and denials."""
    published_rows, derived_rows = (dict(_rows(html)) for html in (published, derived))
    if list(published_rows) != list(derived_rows):
        derivation.differs(f"{page}: rows of {', '.join(published_rows)}; the attempts give {', '.join(derived_rows)}")
    for row, cells in derived_rows.items():
        for column in [column for column in cells if column in published_rows.get(row, ())]:
            stated = published_rows[row][column]
            derivation.printed += 1
            if stated != cells[column]:
                derivation.differs(f"{page}, {row}, {column}: {stated} is published, the attempts give {cells[column]}")
    stated_words, derived_words = (_words(html, names) for html in (published, derived))
    if stated_words != derived_words:
        derivation.lacks(
            f"conclusion on {page}: it states {' '.join(stated_words)!r}, and this version {' '.join(derived_words)!r}"
        )


def _rows(html: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a ranking by their agents, each with its cells by column."""
    columns: list[str] = []
    for row in html.partition("<table")[2].partition("</table>")[0].split("<tr")[1:]:
        cells = [_plain(cell) for cell in _CELLS.findall(row)]
        if columns and cells:
            row_cells = dict(zip(columns, cells, strict=False))
            yield row_cells.pop("agent", cells[0]), row_cells
        columns = columns or cells


def _words(html: str, names: list[str]) -> list[str]:
    """Return the names, figures and denials of the first paragraph, in order."""
    alternatives = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = rf"{alternatives}|[-+−]?\d[\d.,]*\d|[-+−]?\d|\b(?:{'|'.join(_DENIALS)})\b"
    return re.findall(pattern, _plain(html.partition("<p>")[2].partition("</p>")[0]))


def _plain(html: str) -> str:
    """Return the text of HTML, whatever says where its lines may end."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).replace("\u200b", "").replace("\u2011", "-").split())
