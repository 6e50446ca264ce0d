"""Every figure of `ragrounds compare --json`, and where a report shows it: for tests that set the two side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

Json = Mapping[str, Any]
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Sheet:
    """A table of a page."""

    caption: str
    heads: list[str]
    rows: list[list[str]]

    def cell(self, row: str, column: int | str) -> str:
        """The cell of the row that begins so, in a column by its heading or its place."""
        place = column if isinstance(column, int) else self.heads.index(column)
        (found,) = [cells for cells in self.rows if cells[0] == row]
        return found[place]


class Sheets(HTMLParser):
    """Reads the tables of a page, with the captions of their figures."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Sheet] = []
        self._text: list[str] | None = None
        self._caption = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.found.append(Sheet(self._caption, [], []))
            self._caption = ""
        elif tag == "tr" and self.found:
            self.found[-1].rows.append([])
        elif tag in ("th", "td", "figcaption"):
            self._text = []

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("th", "td", "figcaption") or self._text is None:
            return
        text, self._text = "".join(self._text), None
        if tag == "figcaption":
            self._caption = text
        elif tag == "th" and not self.found[-1].rows[1:]:
            self.found[-1].heads.append(text)
        else:
            self.found[-1].rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)


def sheets(page: str) -> list[Sheet]:
    """The tables of a page."""
    reader = Sheets()
    reader.feed(page)
    return [Sheet(one.caption, one.heads, [row for row in one.rows if row]) for one in reader.found]


def shows(cell: str, place: int, value: float | None) -> bool:
    """Whether the number at a place of a cell is this value, as exactly as it is written; ``None``: none is there."""
    found = NUMBER.findall(cell)
    if value is None:
        return len(found) <= place
    if len(found) <= place:
        return False
    written = found[place].replace(",", "")
    if cell.startswith("<"):
        return 0 <= value < float(written)
    unit = next((scale for letter, scale in SCALES.items() if cell.endswith(f" {letter}")), 1.0)
    digits = len(written.partition(".")[2])
    return abs(float(written) * unit - value) <= 0.5001 * 10.0**-digits * unit


Shown = tuple[str, str, int, float | None]
"""What it is; the cell; which number of the cell; the value."""


def figures(compared: Json, page: str, names: Mapping[str, str]) -> Iterator[Shown]:
    """Every figure of a comparison with the cell that should show it."""
    found = sheets(page)
    tables = {table["scorer"]: table for table in compared["tables"]}
    for headline in compared["headlines"]:
        table = tables[headline["scorer"]]
        beside = [tables[name] for name in headline["columns"]]
        yield from _scores(table, beside, _sheet(found, f"{table['scorer']}, "), names)
        if table["pairs"]:
            yield from _pairs(table, _sheet(found, f"paired differences under {table['scorer']}, "), names)
        if table["frontier"]:
            yield from _frontier(table, _sheet(found, "cost and ", f" under {table['scorer']} "), names)
        for grouped in table["groups"]:
            yield from _groups(table, grouped, _sheet(found, f"{table['scorer']} by {grouped['by']}, "), names)
    yield from _totals(compared, _sheet(found, "outcomes and cost"), names)


def _sheet(found: Sequence[Sheet], begins: str, holds: str = "") -> Sheet:
    (sheet,) = [one for one in found if one.caption.startswith(begins) and holds in one.caption]
    return sheet


def _scaled(value: float | None, unit: str) -> float | None:
    return None if value is None else 100 * value if unit == "percent" else value


def _scores(table: Json, beside: Sequence[Json], sheet: Sheet, names: Mapping[str, str]) -> Iterator[Shown]:
    unit = table["unit"]
    for line in table["lines"]:
        name, whole = names[line["run"]], line["overall"]
        for dataset, figure in line["datasets"].items():
            cell = sheet.cell(name, dataset.rpartition("/")[2])
            yield f"{name} {dataset}", cell, 0, _scaled(figure["value"], unit)
        if len(line["datasets"]) > 1:
            yield f"{name} average", sheet.cell(name, "average"), 0, _scaled(whole["value"], unit)
            yield f"{name} pooled", sheet.cell(name, "pooled"), 0, _scaled(whole["pooled"], unit)
        for place, end in enumerate(("low", "high")):
            cell = sheet.cell(name, "95 %").replace("-", " ")
            yield f"{name} {end}", cell, place, _scaled(whole[end], unit)
        yield f"{name} n", sheet.cell(name, "n"), 0, whole["n"]
        if whole["missing"]:
            yield f"{name} missing", sheet.cell(name, "n"), 1, whole["missing"]
        if "at best" in sheet.heads:
            yield f"{name} at best", sheet.cell(name, "at best"), 0, _scaled(whole["best"], unit)
        for other in beside:
            (value,) = [each["overall"]["value"] for each in other["lines"] if each["run"] == line["run"]]
            head = next(one for one in sheet.heads if one.partition(" (")[0] == other["scorer"])
            yield f"{name} {other['scorer']}", sheet.cell(name, head), 0, _scaled(value, other["unit"])


def _pairs(table: Json, sheet: Sheet, names: Mapping[str, str]) -> Iterator[Shown]:
    unit = table["unit"]
    for pair in table["pairs"]:
        row, tests = f"{names[pair['second']]} - {names[pair['first']]}", pair["tests"]
        yield f"{row} difference", sheet.cell(row, "difference"), 0, _scaled(tests["difference"], unit)
        for place, end in enumerate(("low", "high")):
            yield f"{row} {end}", sheet.cell(row, "95 %"), place, _scaled(tests[end], unit)
        columns = {
            "only 2nd right": tests["second_only"],
            "only 1st right": tests["first_only"],
            "exact p": tests["p_mcnemar"],
            "Holm p": pair["p_holm"],
            "MDE": _scaled(tests["mde"], unit),
        }
        if tests["mde"] is None:  # "too few" beside a test, else nothing
            del columns["MDE"]
        for column, value in columns.items():
            if column in sheet.heads:
                yield f"{row} {column}", sheet.cell(row, column), 0, value


def _frontier(table: Json, sheet: Sheet, names: Mapping[str, str]) -> Iterator[Shown]:
    per = "per correct" in sheet.heads
    for point in table["frontier"]["points"]:
        name, score, cost = names[point["run"]], point["score"], point["cost"]
        yield f"{name} score", sheet.cell(name, 1), 0, _scaled(score["value"], "percent")
        yield f"{name} cost", sheet.cell(name, "cost"), 0, cost["value"]
        if per and point["per_correct"] and point["per_correct"]["value"] is not None:
            yield f"{name} per correct", sheet.cell(name, "per correct"), 0, point["per_correct"]["value"]
        assert sheet.cell(name, "on frontier") == ("yes" if point["on_frontier"] else "no")


def _groups(table: Json, grouped: Json, sheet: Sheet, names: Mapping[str, str]) -> Iterator[Shown]:
    for group in grouped["groups"]:
        yield f"{group['name']} n", sheet.cell(group["name"], "n"), 0, group["questions"]
        for run, figure in group["figures"].items():
            cell = sheet.cell(group["name"], names[run])
            yield f"{group['name']} {names[run]}", cell, 0, _scaled(figure["value"], table["unit"])


def _totals(compared: Json, sheet: Sheet, names: Mapping[str, str]) -> Iterator[Shown]:
    for row in compared["rows"]:
        name, usage = names[row["run"]], row["usage"]
        for status in ("failed", "capped", "not_run", "paused", "blocked"):
            if status.replace("_", " ") in sheet.heads:
                count = row["statuses"].get(status, 0)
                yield f"{name} {status}", sheet.cell(name, status.replace("_", " ")), 0, count
        yield f"{name} model calls", sheet.cell(name, "model calls"), 0, row["model_calls"]
        yield f"{name} in", sheet.cell(name, "in"), 0, usage and usage["input"]
        yield f"{name} out", sheet.cell(name, "out"), 0, usage and usage["output"]
        yield f"{name} paid", sheet.cell(name, "paid"), 0, row["cost_paid"]
        yield f"{name} uncached", sheet.cell(name, "full price"), 0, row["cost_uncached"]
