"""Sheets as Markdown and as LaTeX. Cells are text: what would be markup in them is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragrounds.ui.sheets import Sheet

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "[": r"{[}",
    "]": r"{]}",
    "\n": " ",
}
_RANGE = re.compile(r"(?<=\d)-(?=\d)")
_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")


def markdown(sheets: Sequence[Sheet]) -> str:
    """Tables of GitHub's Markdown, each under its title in bold."""
    return "\n\n".join(_markdown(sheet) for sheet in sheets) + "\n"


def latex(sheets: Sequence[Sheet]) -> str:
    """`table` environments with rules of the booktabs package, titles as captions."""
    return "% Needs \\usepackage{booktabs}\n" + "\n".join(_latex(sheet) for sheet in sheets)


def _markdown(sheet: Sheet) -> str:
    lines = [[_md(column.name) for column in sheet.columns]]
    lines.append(["---:" if column.right else ":---" for column in sheet.columns])
    lines += [[_md(cell) for cell in row] for row in sheet.rows]
    return f"**{_md(sheet.title)}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _md(text: str) -> str:
    # Entities for what HTML would take, backslashes for what Markdown would.
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", plain)


def _latex(sheet: Sheet) -> str:
    layout = "".join("r" if column.right else "l" for column in sheet.columns)
    rows = " \\\\\n".join("    " + " & ".join(_tex(cell) for cell in row) for row in sheet.rows)
    heads = " & ".join(_tex(column.name) for column in sheet.columns)
    label = "-".join(part for part in (sheet.key, sheet.scorer) if part)
    return (
        "\\begin{table}[htbp]\n  \\centering\n"
        f"  \\caption{{{_tex(sheet.title)}}}\n  \\label{{tab:{re.sub(r'[^a-z0-9-]', '-', label)}}}\n"
        f"  \\begin{{tabular}}{{{layout}}}\n    \\toprule\n    {heads} \\\\\n    \\midrule\n{rows} \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )


def _tex(text: str) -> str:
    dashed = _MINUS.sub("\0", _RANGE.sub("--", text))
    return "".join(_LATEX.get(letter, letter) for letter in dashed).replace("\0", "$-$")
