"""The page: sections, style, script and attempts put together into one file that asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files

import msgspec

from ragrounds import __version__
from ragrounds.errors import UserError
from ragrounds.evals.comparison import Comparison
from ragrounds.evals.exporting.hiding import Hider
from ragrounds.evals.exporting.reading import traces_by_question
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.frontier_svg import style as picture_style
from ragrounds.ui.report import sections
from ragrounds.ui.report.payload import Payload, packed
from ragrounds.ui.sheets import distinct_tables, numbered

_SCRIPTS = ("unpacking.js", "listing.js", "detail.js")


def report(
    store: Store,
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    title: str = "",
    protocols: Sequence[str] = (),
    attempts: bool = True,
    told: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """The page, part by part; what is read first comes first, so that a browser paints before it has read the rest.

    Args:
        store: where the runs are.
        runs: those of the comparison, in its order.
        comparison: their figures.
        title: of the page.
        protocols: those to show, by default as in the terminal.
        attempts: also every attempt with its steps.
        told: called with the number of attempts written so far.
    """
    hide = Hider()
    shown = [table.protocol for table, _ in distinct_tables(comparison, protocols)]
    style = _asset("report.css") + picture_style()
    script = "(()=>{'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\nstart();})();"
    yield _head(title or f"{comparison.benchmark}: {len(runs)} runs", style, script)
    parts = {
        "Summary": sections.summary(comparison, protocols),
        "Cost and accuracy": sections.frontier_section(comparison, protocols),
        "Tables": sections.tables(comparison, protocols),
        "Outcomes": sections.outcome_section(comparison, protocols),
        "Methods": sections.methods_section(comparison, runs, shown, hide),
        "Fingerprints": sections.fingerprint_section(runs, hide),
    }
    for name, body in parts.items():
        yield f'<section id="{name.split()[0].lower()}"><h2>{name}</h2>{hide(body)}</section>\n'
    if attempts:
        yield _asset("browser.html")
        yield "</main>\n"
        yield from _attempts(store, runs, comparison, hide, told)
        yield f"<script>{script}</script>\n"
    else:
        yield "</main>\n"
    yield "</body></html>\n"


def _head(title: str, style: str, script: str) -> str:
    # Only this very script and style are allowed, and nothing may be fetched: text that came from a model cannot act
    # here, even if it ever got into the page as markup.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="ragrounds {__version__}">\n'
        f"<title>{sections.text(title)}</title>\n<style>{style}</style></head>\n<body><header>"
        f"<h1>{sections.text(title)}</h1><nav><a href='#summary'>Summary</a> <a href='#cost'>Cost</a> "
        "<a href='#tables'>Tables</a> <a href='#outcomes'>Outcomes</a> <a href='#methods'>Methods</a> "
        "<a href='#fingerprints'>Fingerprints</a> <a href='#attempts'>Attempts</a></nav></header>\n<main>\n"
    )


def _attempts(
    store: Store, runs: Sequence[Run], comparison: Comparison, hide: Hider, told: Callable[[int], None] | None
) -> Iterator[str]:
    questions, _ = store.questions(runs[0])
    order = {question.id: place for place, question in enumerate(questions)}
    numbers = {run: int(number) - 1 for run, number in numbered(comparison).items()}
    payload = Payload(order, numbers, hide)
    count = 0
    for piece in payload.pieces(traces_by_question(store, runs)):
        yield f'<script type="text/plain" id="piece-{count}">{piece}</script>\n'
        count += 1
        if told:
            told(payload.attempts)
    yield f'<script type="text/plain" id="index">{payload.index()}</script>\n'
    about = {"runs": [[run.id, run.agent] for run in runs], "pieces": count}
    yield f'<script type="text/plain" id="about">{packed(msgspec.to_builtins(about), hide)}</script>\n'


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _asset(name: str) -> str:
    found = files(__package__) / name
    if not found.is_file():
        raise UserError(f"The installed ragrounds lacks its file {name}; install it again.")
    return found.read_text(encoding="utf-8").strip()
