"""Study: a TOML file that defines the runs of one table of a paper.

Rows and columns each give *settings*; a cell has the settings of both, and the study's settings by default. Its
settings determine the kind of a cell: a **run** (it names an agent), a **retrieval** (a retriever and no agent), or an
**arena** (an axis). A setting with several values makes a row of each: a grid with names.

    title = "Two strategies on two models"

    [settings]
    benchmark = "sample"

    [[rows]]
    name = "{model}, {agent}"
    agent = { "no retrieval" = "direct", "8 passages" = "vanilla_rag[top_k=8]" }
    model = { "A" = "openai:a", "B" = "openai:b" }

    [[columns]]
    name = "all questions"

Published figures are listed with the rows (`published`), one for each column, and printed with our deviation from them.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.files import read_text, toml_record
from ragrounds.base.specs import Spec, Value, parse

Setting: TypeAlias = str | int | float | bool | tuple[str, ...] | dict[str, str]
"""Value of one setting: a text, a number, a switch, several texts, or names with texts."""
Settings: TypeAlias = dict[str, Setting]
Raw: TypeAlias = Mapping[str, Any]
"""A table of TOML."""
CellKind = Literal["run", "retrieve", "arena"]
Spread = Literal["binomial", "epochs", "orders", "none"]

COMMON = ("benchmark", "limit", "per_dataset", "seed", "where")
OF_KIND: dict[CellKind, tuple[str, ...]] = {
    "run": (
        "agent", "model", "base_url", "alias", "corpus", "retriever", "k", "profile", "epochs", "temperature", "top_p",
        "max_answer_tokens", "timeout", "scorer", "judge", "labels", "imported", "parameters", "query_generation",
    ),
    "retrieve": (
        "retriever", "corpus", "split", "measure", "depth", "query_generation", "model", "base_url", "alias",
        "reranker", "rerank_top",
    ),
    "arena": ("axis",),
}  # fmt: skip
"""Settings that a cell of each kind may have, besides `COMMON`."""
SETTINGS = tuple(dict.fromkeys((*COMMON, *itertools.chain(*OF_KIND.values()))))
_GRID = ("agent", "model", "corpus", "retriever", "k", "profile", "benchmark", "scorer", "measure", "query_generation",
         "temperature", "seed", "epochs", "axis")  # fmt: skip
"""Settings that may have several values; each value makes a separate row or column."""
_MAX_CELLS = 10_000
"""Largest number of cells of a study; a larger grid is taken for a mistake."""
_PUBLISHED = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:(?:±|\+-|\+/-)\s*(\d+(?:\.\d+)?))?")


class PublishedFigure(Struct, frozen=True):
    """Figure as the paper prints it."""

    value: float
    spread: float | None = None
    """Number after the figure's ±."""


class _Line(Struct, frozen=True, kw_only=True):
    """Fields that rows and columns have besides settings."""

    name: str
    group: str = ""
    """Heading of a group of rows: a cohort."""
    mean: tuple[str, ...] = ()
    """Rows or columns; this line is their unweighted mean."""
    change: tuple[str, ...] = ()
    """Two columns; this one is the change from the first to the second, in percent of the first."""
    difference: tuple[str, ...] = ()
    """Two columns; this one is the second minus the first."""
    hidden: bool = False
    """True if the line is carried out and counted in means, but not shown."""


class _LineInFile(_Line, frozen=True):
    """Row or column as a study's file gives it, before its grid is expanded."""

    published: list[float | str] | dict[str, list[float | str]] = field(default_factory=list)


class StudyLine(_Line, frozen=True, kw_only=True):
    """Row (a system) or column (a dataset, a measure, a setting) of the table, carried out or computed from others."""

    settings: Settings
    """Settings of this line; a row's settings override those of a column."""
    published: tuple[PublishedFigure | None, ...] = ()
    """Published figures of a row, one per column; empty if the paper prints none."""

    @property
    def made_of(self) -> tuple[str, ...]:
        """Names of the lines that its cells are computed from."""
        return self.mean + self.change + self.difference


class StudyAnalysis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Analysis of the study's runs, printed below its table."""

    name: str
    rows: tuple[str, ...] = ()
    """Rows whose runs are analysed; empty: all."""
    columns: tuple[str, ...] = ()
    """Columns whose runs are analysed; empty: all."""
    options: dict[str, str | int | float | dict[str, float]] = field(default_factory=dict)
    """Arguments of `ragrounds analyse`: k, parameter, scorer, sizes, corpus."""
    published: tuple[tuple[str, str, float], ...] = ()
    """Published figures: label of a row, heading of a column, figure."""


class StudyCorrelation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Correlation of two columns over the rows that have both, without rows that are means; printed below the table."""

    columns: tuple[str, str]
    kind: Literal["Pearson", "Spearman"] = "Pearson"
    published: float | None = None
    """Correlation as the paper prints it."""


class StudyCell(Struct, frozen=True, kw_only=True):
    """Cell that is carried out."""

    row: str
    column: str
    kind: CellKind
    settings: Settings
    replaced: dict[str, str] = field(default_factory=dict)
    """Model and corpus of a call, if the cell's row, column or study names others."""

    @property
    def name(self) -> str:
        """Row and column of the cell, with the model and corpus that a call put in place of theirs."""
        position = f"{self.row} · {self.column}"
        return f"{', '.join(self.replaced.values())} ({position})" if self.replaced else position

    @property
    def key(self) -> str:
        """Digest of the cell's settings, as 16 hexadecimal digits: a cell with other settings is a different cell."""
        # A server with an alias is identified by the alias, because its address may change.
        identity = {
            key: setting for key, setting in self.settings.items() if key != "base_url" or "alias" not in self.settings
        }
        text = msgspec.json.encode((self.kind, identity), order="sorted")
        return hashlib.sha256(text).hexdigest()[:16]


class _StudyFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a study besides its rows, columns and settings."""

    title: str
    source: str = ""
    """Paper and table that the study reproduces."""
    note: str = ""
    """Note for the reader."""
    digits: int = 2
    """Number of decimals of the figures."""
    spread: Spread = "none"
    """Meaning of the number after ±: sqrt(p(1-p)/n), the sample standard deviation over epochs, an online rating's
    over random orders of the matches, or none."""
    baseline: str = ""
    """Row that every other row is compared with."""
    picture: Literal["", "lines", "bars"] = ""
    """Kind of picture: ``lines`` (a line a row over the columns), ``bars``, or none."""
    arena: Raw = field(default_factory=dict)
    """Arguments of the arena whose axes are columns."""
    analyses: tuple[StudyAnalysis, ...] = ()
    correlations: tuple[StudyCorrelation, ...] = ()


class _StudyFile(_StudyFields, frozen=True):
    """Study as its file gives it."""

    rows: list[Raw]
    columns: list[Raw]
    settings: Raw = field(default_factory=dict)


class Study(_StudyFields, frozen=True, kw_only=True):
    """Study as its file defines it, with its grids expanded."""

    name: str
    """Name of the file, without its ending."""
    settings: Settings
    """Default settings of every cell; columns and rows override them."""
    rows: tuple[StudyLine, ...]
    columns: tuple[StudyLine, ...]

    def cells(self) -> Iterator[StudyCell]:
        """Yield the cells that are carried out, row by row, without the computed ones."""
        for row in self.rows:
            for column in self.columns:
                if not row.mean and not column.made_of:
                    yield _cell(self, row, column)

    def published(self, row: str, column: str) -> PublishedFigure | None:
        """Return the figure that the paper prints in a cell."""
        figures = next(line for line in self.rows if line.name == row).published
        index = [line.name for line in self.columns].index(column)
        return figures[index] if index < len(figures) else None


def agent_text(settings: Settings) -> str:
    """Return the agent of a run's cell as a user would type it: with its retriever, its k and its further parameters.

    Raises:
        UserError: an unknown agent, or a parameter that it does not have.
    """
    spec = parse(str(settings["agent"]))
    agent, parameters = open_agent(spec), dict[str, Value]()
    if "retriever" in settings and agent.card.searches:
        parameters["retriever"] = parse(str(settings["retriever"]))
    if isinstance(k := settings.get("k"), int) and "top_k" in agent.parameters:
        parameters["top_k"] = k
    return str(spec.having(**{key: value for key, value in parameters.items() if key not in spec.parameters}))


def model_name(text: str) -> str:
    """Return the name of a model without its server and options: the same model for any server."""
    return text.partition("[")[0].partition(":")[2]


def shipped_studies() -> list[str]:
    """Return the names of the studies that come with the package."""
    return list(_shipped_studies())


@cache
def _shipped_studies() -> tuple[str, ...]:
    folder = files(__package__).joinpath("shipped")
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


@cache
def _shipped_study(name: str) -> Study:
    """Read a shipped study once in a process: every published site and every list of studies has all fifty."""
    return read_study(shipped_text(name), name)


def shipped_text(name: str) -> str:
    """Return the text of a study that comes with the package.

    Raises:
        UserError: an unknown name, or a file; the message has the nearest name.
    """
    if name not in shipped_studies():
        if Path(name).is_file():
            raise UserError(f"{name} is a file: change a copy of it, then: ragrounds study run COPY")
        raise unknown("study", name, shipped_studies(), "ragrounds study ls")
    return files(__package__).joinpath("shipped", f"{name}.toml").read_text(encoding="utf-8")


def open_study(name: str | Path) -> Study:
    """Read a study: a shipped one by its name, or a TOML file by its path.

    Raises:
        UserError: no such study, or a file of another form; the message has the location.
    """
    text = str(name)
    if text in _shipped_studies():
        return _shipped_study(text)
    path = Path(name).expanduser()
    if not path.suffix and not path.exists():
        raise unknown("study", text, shipped_studies(), "ragrounds study ls")
    return read_study(read_text(path), path.stem)


def read_study(text: str, name: str) -> Study:
    """Parse the text of a study's file.

    Raises:
        UserError: no TOML, an unknown key, a duplicate name, a published list of another length, a mean of missing
            lines, or a cell that names neither agent nor retriever.
    """
    raw_study = toml_record(text, _StudyFile, f"The study {name!r}")
    study = Study(
        **{key: getattr(raw_study, key) for key in _StudyFields.__struct_fields__},
        name=name,
        settings=_settings(name, "[settings]", raw_study.settings),
        columns=(columns := tuple(_lines(name, "column", raw_study.columns, 0))),
        rows=tuple(_lines(name, "row", raw_study.rows, len(columns))),
    )
    _check(study)
    return study


def _lines(study: str, kind: str, raw_lines: Sequence[Raw], columns: int) -> Iterator[StudyLine]:
    """Yield the rows or columns, one for each combination of the values of its grid."""
    for number, raw in enumerate(raw_lines, 1):
        try:
            line = msgspec.convert(raw, _LineInFile)
        except msgspec.ValidationError as error:
            raise UserError(f"The study {study!r}, {kind} {number}: {error}") from error
        fields = {key: getattr(line, key) for key in _Line.__struct_fields__}
        for name, settings in _expand_grid(f"The study {study!r}, {kind} {line.name!r}", line, raw):
            for name_of_field, pair in (("change", line.change), ("difference", line.difference)):
                if len(pair) not in (0, 2):
                    raise UserError(f"The study {study!r}: {name_of_field} of the {kind} {name!r} names two columns.")
            yield StudyLine(
                **fields | {"name": name},
                settings=_settings(study, f"the {kind} {name!r}", settings),
                published=_published(study, name, line.published, columns),
            )


def _expand_grid(location: str, line: _Line, raw: Raw) -> Iterator[tuple[str, Raw]]:
    """Yield a line's names and settings, one pair for each combination of its grid's values."""
    raw_settings = {key: value for key, value in raw.items() if key not in _LineInFile.__struct_fields__}
    grid = {key: _named_values(raw_settings[key]) for key in _GRID if isinstance(raw_settings.get(key), list | dict)}
    for key, values in grid.items():
        if not values:
            raise UserError(f"{location}: {key} has no values.")
        if f"{{{key}}}" not in line.name:
            raise UserError(f"{location}: {key} has several values, so the name needs {{{key}}}.")
    for combination in itertools.product(*grid.values()):
        names = {key: name for key, (name, _) in zip(grid, combination, strict=True)}
        settings = raw_settings | {key: value for key, (_, value) in zip(grid, combination, strict=True)}
        yield _fill_name(line.name, settings | names), settings


def _fill_name(template: str, values: Raw) -> str:
    """Return a line's name with the values of its grid in place of their keys."""
    return re.sub(r"\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), template)


def _named_values(raw_values: list[object] | Raw) -> list[tuple[str, object]]:
    """Return the values of a grid, each with its name in the table."""
    return list(raw_values.items()) if isinstance(raw_values, dict) else [(str(value), value) for value in raw_values]


def _settings(name: str, location: str, raw_settings: Raw) -> Settings:
    settings: Settings = {}
    for key, value in raw_settings.items():
        if key not in SETTINGS:
            raise UserError(
                f"The study {name!r}: {location} has an unknown key {key!r}.{nearest(key, SETTINGS)} "
                f"Known: {', '.join(SETTINGS)}."
            )
        if isinstance(value, list):
            settings[key] = tuple(map(str, value))
        elif isinstance(value, dict):
            settings[key] = {str(name): str(text) for name, text in value.items()}
        elif isinstance(value, str | int | float):
            settings[key] = value
        else:
            raise UserError(f"The study {name!r}: {location} sets {key} to {value!r}; expected a text or a number.")
    return settings


def _published(
    study: str, row: str, raw_figures: Sequence[float | str] | Mapping[str, Sequence[float | str]], columns: int
) -> tuple[PublishedFigure | None, ...]:
    listed = raw_figures.get(row, []) if isinstance(raw_figures, Mapping) else raw_figures
    if listed and len(listed) != columns:
        raise UserError(
            f"The study {study!r}: the row {row!r} has {len(listed)} published figures for {columns} columns; "
            'put "" where the paper has none.'
        )
    return tuple(_figure(study, row, figure) for figure in listed)


def _figure(name: str, row: str, raw_figure: float | str) -> PublishedFigure | None:
    if not isinstance(raw_figure, str):
        return PublishedFigure(float(raw_figure))
    if raw_figure.strip() in ("", "-", "–", "—"):
        return None
    match = _PUBLISHED.fullmatch(raw_figure.strip())
    if not match:
        raise UserError(
            f"The study {name!r}: the row {row!r} has the published figure {raw_figure!r}; expected '71.6 ±1.4'."
        )
    return PublishedFigure(float(match[1]), float(match[2]) if match[2] else None)


def _check(study: Study) -> None:
    rows, columns = [row.name for row in study.rows], [column.name for column in study.columns]
    if not rows or not columns:
        raise UserError(f"The study {study.name!r} has no {'columns' if rows else 'rows'}.")
    for kind, names in (("row", rows), ("column", columns)):
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise UserError(f"The study {study.name!r} has two {kind}s named {duplicate!r}.")
    for kind, names, references in (
        ("row", rows, [name for row in study.rows for name in row.mean]),
        ("row", rows, [study.baseline] if study.baseline else []),
        ("row", rows, [name for analysis in study.analyses for name in analysis.rows]),
        ("column", columns, [name for column in study.columns for name in column.made_of]),
        ("column", columns, [name for analysis in study.analyses for name in analysis.columns]),
        ("column", columns, [name for correlation in study.correlations for name in correlation.columns]),
    ):
        for reference in references:
            if reference not in names:
                raise UserError(f"The study {study.name!r} has no {kind} {reference!r}.{nearest(reference, names)}")
    if len(rows) * len(columns) > _MAX_CELLS:
        raise UserError(f"The study {study.name!r} has {len(rows) * len(columns):,} cells, more than {_MAX_CELLS:,}.")
    for _ in study.cells():
        pass  # building a cell raises its errors


def _cell(study: Study, row: StudyLine, column: StudyLine) -> StudyCell:
    """Build a cell from the study's settings, overridden by its column's and then by its row's.

    Raises:
        UserError: it names neither agent nor retriever, or a setting belongs to another kind of cell.
    """
    location, line_settings = f"the cell {row.name!r} · {column.name!r}", {**column.settings, **row.settings}
    settings = {**study.settings, **line_settings}
    kind: CellKind = "arena" if "axis" in settings else "run" if "agent" in settings else "retrieve"
    if kind == "retrieve" and "retriever" not in settings:
        raise UserError(f"The study {study.name!r}: {location} names neither an agent nor a retriever.")
    if "benchmark" not in settings:
        raise UserError(f"The study {study.name!r}: {location} names no benchmark.")
    allowed = {*COMMON, *OF_KIND[kind], *(OF_KIND["run"] if kind == "arena" else ())}
    if invalid_keys := [key for key in line_settings if key not in allowed]:
        raise UserError(
            f"The study {study.name!r}: {location} is made by a {kind}, which takes no {invalid_keys[0]!r}."
        )
    used = {key: value for key, value in settings.items() if key in allowed}
    try:
        return StudyCell(row=row.name, column=column.name, kind=kind, settings=_merge_into_specs(used))
    except UserError as error:
        raise UserError(f"The study {study.name!r}: {location}: {error}") from None


def _merge_into_specs(settings: Settings) -> Settings:
    """Return the settings, with settings that only add to a spec merged into that spec.

    `parameters` and a run's `query_generation` go into the agent, so that a row can set one for any agent that a column
    names; `reranker` with `rerank_top` goes around the retriever.

    Raises:
        UserError: an agent or a retriever that is no spec.
    """
    merged = dict(settings)
    added, reranker, top = merged.pop("parameters", {}), merged.pop("reranker", None), merged.pop("rerank_top", 100)
    parameters = dict(added) if isinstance(added, dict) else {}
    if "agent" in merged and "query_generation" in merged:
        parameters["query_generation"] = str(merged.pop("query_generation"))
    if parameters:
        inside = ",".join(f"{key}={value}" for key, value in parameters.items())
        merged["agent"] = str(parse(str(merged["agent"])).having(**parse(f"agent[{inside}]").parameters))
    if reranker is not None:
        if not isinstance(top, int):
            raise UserError(f"rerank_top is {top!r}; expected a whole number.")
        inner = parse(str(merged["retriever"]))
        reranked = inner if inner.parameters else inner.name
        merged["retriever"] = str(Spec("rerank", {"of": reranked, "model": str(reranker), "top": top}))
    return merged
