"""The parts of the report after its results that stand in the page as HTML: they need no script, and they print."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.compare.limitations import Limitation
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.analysis_tables import analysis_table, with_names
from ragrounds.ui.report.html_tables import html_table, prose, text
from ragrounds.ui.report.limitations import limitation_sentences
from ragrounds.ui.report.results import figure

Hide = Callable[[str], str]
"""Takes what looks like a key out of a text."""


def analyses_section(
    store: Store, runs: Sequence[Run], names: Sequence[str], scorer: str, seed: int, called: Mapping[str, str]
) -> str:
    """The table, the note and the picture of each analysis; `called` as of
    :func:`ragrounds.ui.analysis_tables.with_names`.

    Raises:
        UserError: an unknown analysis, or runs that lack what it needs.
    """
    parts = []
    options = AnalysisOptions(scorer=scorer, seed=seed) if scorer else AnalysisOptions(seed=seed)
    for name in names:
        result = with_names(analyse(name, store, runs, options), called)
        parts.append(figure(result.picture))
        parts.append(html_table(analysis_table(result.table, scorer)))
        if result.table.note:
            parts.append(f"<p>{text(*named_notes([result.table.note], called))}</p>")
    return "".join(parts)


def limitations_section(found: Sequence[Limitation], notes: Sequence[str], names: Mapping[str, str]) -> str:
    """What follows from the data, and the notes of the comparison."""
    said = "".join(f"<li>{prose(sentence)}</li>" for sentence in limitation_sentences(found, names))
    more = "".join(f"<li>{prose(note)}</li>" for note in notes)
    noted = f'<h3>Notes on these runs</h3><ul class="notes">{more}</ul>' if notes else ""
    return (f"<ul>{said}</ul>" if said else "") + noted


def named_notes(notes: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Notes with the names of runs in place of their ids; commands keep the ids."""
    ids = sorted(names, key=len, reverse=True)
    made = []
    for note in notes:
        parts = note.split("`")
        for id in ids:
            parts[::2] = [part.replace(id, names[id]) for part in parts[::2]]
        made.append("`".join(parts))
    return made


def fingerprint_section(runs: Sequence[Run], hide: Hide, names: Mapping[str, str] | None = None) -> str:
    """Everything that each run's fingerprint covers: all that its results depend on.

    Args:
        runs: to show.
        hide: takes what looks like a key out of a text.
        names: run id → what it is called; by default its agent's text.
    """
    parts = []
    for run in runs:
        created = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.created))
        rows = {
            "run": run.id,
            "agent": run.agent,
            "fingerprint": run.fingerprint,
            "created": created,
            "origin": run.origin,
            "questions": f"{run.count:,}",
            "question hash": run.questions,
            **_flat(run.identity),
        }
        cells = "".join(
            f'<tr><th scope="row">{text(key)}</th><td>{text(hide(str(v)))}</td></tr>' for key, v in rows.items()
        )
        called = (names or {}).get(run.id, run.agent)
        parts.append(
            f"<details><summary>{text(called)}: <code>{text(run.fingerprint[:12])}</code></summary>"
            f'<div class="scroll"><table class="identity"><tbody>{cells}</tbody></table></div></details>'
        )
    return "".join(parts)


def _flat(identity: Mapping[str, object], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in identity.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{name}.")
        else:
            found[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
    return found
