"""What stands before everything else in a report: what is missing, and the abstract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragrounds.evals.compare.abstract import Abstract
from ragrounds.ui.abstract_text import abstract_sentences, lack_lines, missing_commands
from ragrounds.ui.report.citation import Citation
from ragrounds.ui.report.html_tables import prose, text
from ragrounds.ui.text import number_of

_LINES = 12
"""Commands that are listed."""


def incomplete_section(abstract: Abstract, names: Mapping[str, str]) -> str:
    """That something is missing, of which runs, and the commands that make it; empty where nothing is."""
    return missing_aside(lack_lines(abstract, names), missing_commands(abstract))


def missing_aside(lines: Sequence[str], commands: Sequence[str]) -> str:
    """What is missing, on top of a page; empty where nothing is.

    Args:
        lines: what is missing.
        commands: that make it.
    """
    if not lines:
        return ""
    listed = "".join(f"<li>{text(line)}</li>" for line in lines)
    shown = "".join(f"<code>{text(command)}</code>" for command in commands[:_LINES])
    more = f"<p>And {len(commands) - _LINES:,} more.</p>" if len(commands) > _LINES else ""
    made = (
        f'<details><summary>Commands that make what is missing</summary><div class="commands">{shown}</div>{more}'
        "</details>"
    )
    return (
        '<aside class="incomplete" role="note" aria-labelledby="incomplete"><h2 id="incomplete">Incomplete</h2>'
        f"<ul>{listed}</ul>{made if commands else ''}</aside>\n"
    )


def abstract_section(
    abstract: Abstract,
    names: Mapping[str, str],
    notes: Sequence[str],
    cautions: Iterable[str] = (),
    people: Iterable[str] = (),
) -> str:
    """Who answered what, when, with which models, and what can be concluded.

    Args:
        abstract: of a comparison.
        names: run id → what the run is called, safe to show.
        notes: on its runs, which stand elsewhere.
        cautions: what must be known before its figures, a line each.
        people: how far the judges behind its scores agree with people, a line each.
    """
    said = "".join(f"<p>{prose(sentence)}</p>" for sentence in (*abstract_sentences(abstract, names), *people))
    misleading = "".join(f"<p>{prose(line)}</p>" for line in cautions)
    said += f'<div class="warning">{misleading}</div>' if misleading else ""
    more = number_of(len(notes), "note")
    also = f'<p class="dim">{more} on these runs: see <a href="#limitations">Limitations</a>.</p>' if notes else ""
    return f'<div class="lead">{said}</div>{also}'


def citation_section(found: Iterable[Citation]) -> str:
    """What to cite, in words and as BibTeX."""
    made = list(found)
    lines = "".join(f"<li>{text(one.what)}: {text(one.text)}.</li>" for one in made)
    entries = text("\n\n".join(one.bibtex for one in made))
    return f"<ul>{lines}</ul><details><summary>BibTeX</summary><pre>{entries}</pre></details>"
