"""A study: many runs that make one table of a paper, as one TOML file.

Rows and columns each give *settings*; a cell is what both say together, over what the study says of all cells. From its
settings follows what makes a cell: a **run** (it names an agent), a **retrieval** (a retriever and no agent), or an
**arena** (an axis). A setting of several values makes a row of each: a grid with names.

    title = "Two strategies on two models"

    [settings]
    benchmark = "sample"

    [[rows]]
    name = "{model}, {agent}"
    agent = { "no retrieval" = "direct", "8 passages" = "vanilla_rag[top_k=8]" }
    model = { "A" = "openai:a", "B" = "openai:b" }

    [[columns]]
    name = "all questions"

Published figures stand beside the rows (`published`), one for each column, and are printed with the deviation of ours.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.files import read_text
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.base.text import parse_toml

Setting: TypeAlias = str | int | float | bool | tuple[str, ...] | dict[str, str]
"""One value of a cell: a text, a number, a switch, several texts, or names with texts."""
Settings: TypeAlias = dict[str, Setting]
Raw: TypeAlias = Mapping[str, Any]
"""A table of TOML."""
CellKind = Literal["run", "retrieve", "arena"]
Spread = Literal["binomial", "epochs", "none"]

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
"""The settings that a cell of each kind may have, beside `COMMON`."""
SETTINGS = tuple(dict.fromkeys((*COMMON, *itertools.chain(*OF_KIND.values()))))
_GRID = ("agent", "model", "corpus", "retriever", "k", "profile", "benchmark", "scorer", "measure", "query_generation",
         "temperature", "seed", "epochs", "axis")  # fmt: skip
"""Settings that may have several values, each of which makes a row or a column of its own."""
_MOST = 10_000
"""Cells of a study at most: a grid of more is a slip."""
_PUBLISHED = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:(?:±|\+-|\+/-)\s*(\d+(?:\.\d+)?))?")


class PublishedFigure(Struct, frozen=True):
    """A figure as the paper prints it."""

    value: float
    spread: float | None = None
    """What stands after its ±."""


class _Line(Struct, frozen=True, kw_only=True):
    """What rows and columns may say beside settings."""

    name: str
    group: str = ""
    """A heading that rows stand under: a cohort."""
    mean: tuple[str, ...] = ()
    """Rows, or columns, whose unweighted mean this one is."""
    change: tuple[str, ...] = ()
    """Two columns: this one is how much the second lies above the first, in percent of the first."""
    difference: tuple[str, ...] = ()
    """Two columns: this one is the second less the first."""
    hidden: bool = False
    """Carried out and counted in means, not shown."""


class _GivenLine(_Line, frozen=True):
    published: list[float | str] | dict[str, list[float | str]] = field(default_factory=list)


class StudyLine(_Line, frozen=True, kw_only=True):
    """A row (a system) or a column (a dataset, a measure, a setting) of the table; or what is computed from others."""

    settings: Settings
    """Its own; a row's go before those of a column."""
    published: tuple[PublishedFigure | None, ...] = ()
    """Of a row one a column; none at all where the paper prints none."""

    @property
    def made_of(self) -> tuple[str, ...]:
        """The lines that its cells are computed from."""
        return self.mean + self.change + self.difference


class StudyAnalysis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An analysis of the study's runs, printed below its table."""

    name: str
    rows: tuple[str, ...] = ()
    """Whose runs; none: all."""
    columns: tuple[str, ...] = ()
    """In which columns; none: all."""
    options: dict[str, str | int | float | dict[str, float]] = field(default_factory=dict)
    """Arguments of `ragrounds analyse`: k, parameter, scorer, sizes, corpus."""
    published: tuple[tuple[str, str, float], ...] = ()
    """Label of a row, heading of a column, the paper's figure."""


class StudyCorrelation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How two columns go together over the rows that have both, rows that are means apart; said below the table."""

    columns: tuple[str, str]
    kind: Literal["Pearson", "Spearman"] = "Pearson"
    published: float | None = None
    """As the paper prints it."""


class StudyCell(Struct, frozen=True, kw_only=True):
    """A cell that is carried out."""

    row: str
    column: str
    kind: CellKind
    settings: Settings

    @property
    def name(self) -> str:
        """Row and column."""
        return f"{self.row} · {self.column}"

    @property
    def key(self) -> str:
        """What determines it, as 16 hexadecimal digits: a cell whose settings change is another one."""
        # A server with a name is known by it, whatever its address is today.
        named = {key: one for key, one in self.settings.items() if key != "base_url" or "alias" not in self.settings}
        text = msgspec.json.encode((self.kind, named), order="sorted")
        return hashlib.sha256(text).hexdigest()[:16]


class _Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a study says beside its lines."""

    title: str
    source: str = ""
    """The paper and its table."""
    note: str = ""
    """What a reader must know."""
    digits: int = 2
    """Decimals of the figures."""
    spread: Spread = "none"
    """What stands after ±: sqrt(p(1-p)/n), the sample standard deviation over epochs, or nothing."""
    baseline: str = ""
    """The row that every other row is set against."""
    picture: Literal["", "lines", "bars"] = ""
    """``lines`` (a line a row over the columns), ``bars``, or nothing."""
    arena: Raw = field(default_factory=dict)
    """Arguments of the arena whose axes are columns."""
    analyses: tuple[StudyAnalysis, ...] = ()
    correlations: tuple[StudyCorrelation, ...] = ()


class _File(_Said, frozen=True):
    rows: list[Raw]
    columns: list[Raw]
    settings: Raw = field(default_factory=dict)


class Study(_Said, frozen=True, kw_only=True):
    """A study as its file says it, its grids expanded."""

    name: str
    """The file's, without its ending."""
    settings: Settings
    """Of every cell; columns and rows go before it."""
    rows: tuple[StudyLine, ...]
    columns: tuple[StudyLine, ...]

    def cells(self) -> Iterator[StudyCell]:
        """The cells that are carried out, row by row; those that are computed are not among them."""
        for row in self.rows:
            for column in self.columns:
                if not row.mean and not column.made_of:
                    yield _cell(self, row, column)

    def published(self, row: str, column: str) -> PublishedFigure | None:
        """What the paper prints in a cell."""
        found = next(one for one in self.rows if one.name == row).published
        place = [one.name for one in self.columns].index(column)
        return found[place] if place < len(found) else None


def agent_text(settings: Settings) -> str:
    """The agent of a run's cell as one would type it: with its retriever, its k and its further parameters.

    Raises:
        UserError: an unknown agent, or a parameter that it does not have.
    """
    spec = parse(str(settings["agent"]))
    agent, given = open_agent(spec), dict[str, Value]()
    if "retriever" in settings and agent.card.searches:
        given["retriever"] = parse(str(settings["retriever"]))
    if isinstance(k := settings.get("k"), int) and "top_k" in agent.parameters:
        given["top_k"] = k
    return str(spec.having(**{key: value for key, value in given.items() if key not in spec.parameters}))


def shipped_studies() -> list[str]:
    """The names of the studies that come with the package."""
    folder = files(__package__).joinpath("shipped")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def shipped_text(name: str) -> str:
    """The file of a study that comes with the package.

    Raises:
        UserError: there is none of that name; the nearest is named.
    """
    if name not in shipped_studies():
        raise unknown("study", name, shipped_studies(), "ragrounds study ls")
    return files(__package__).joinpath("shipped", f"{name}.toml").read_text(encoding="utf-8")


def open_study(name: str | Path) -> Study:
    """Read a study: one that is shipped by its name, or a TOML file by its path.

    Raises:
        UserError: there is none, or its file does not have the form of one; names the place.
    """
    text = str(name)
    if text in shipped_studies():
        return read_study(shipped_text(text), text)
    path = Path(name).expanduser()
    if not path.suffix and not path.exists():
        raise unknown("study", text, shipped_studies(), "ragrounds study ls")
    return read_study(read_text(path), path.stem)


def read_study(text: str, name: str) -> Study:
    """Read the text of a study's file.

    Raises:
        UserError: no TOML, an unknown key, a name that stands twice, a published list of another length, a mean of what
            is not there, a cell that names neither agent nor retriever.
    """
    try:
        made = msgspec.convert(parse_toml(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The study {name!r}: {error}") from error
    study = Study(
        **{key: getattr(made, key) for key in _Said.__struct_fields__},
        name=name,
        settings=_settings(name, "[settings]", made.settings),
        columns=(columns := tuple(_lines(name, "column", made.columns, 0))),
        rows=tuple(_lines(name, "row", made.rows, len(columns))),
    )
    _check(study)
    return study


def _lines(study: str, kind: str, given: Sequence[Raw], columns: int) -> Iterator[StudyLine]:
    """The rows or the columns, once for each combination of the values that the grid of each has."""
    for number, raw in enumerate(given, 1):
        try:
            line = msgspec.convert(raw, _GivenLine)
        except msgspec.ValidationError as error:
            raise UserError(f"The study {study!r}, {kind} {number}: {error}") from error
        said = {key: getattr(line, key) for key in _Line.__struct_fields__}
        for name, settings in _expanded(f"The study {study!r}, {kind} {line.name!r}", line, raw):
            for word, pair in (("change", line.change), ("difference", line.difference)):
                if len(pair) not in (0, 2):
                    raise UserError(f"The study {study!r}: {word} of the {kind} {name!r} names two columns.")
            yield StudyLine(
                **said | {"name": name},
                settings=_settings(study, f"the {kind} {name!r}", settings),
                published=_published(study, name, line.published, columns),
            )


def _expanded(where: str, line: _Line, raw: Raw) -> Iterator[tuple[str, Raw]]:
    """A line's names and settings."""
    given = {key: value for key, value in raw.items() if key not in _GivenLine.__struct_fields__}
    grid = {key: _named_values(given[key]) for key in _GRID if isinstance(given.get(key), list | dict)}
    for key, values in grid.items():
        if not values:
            raise UserError(f"{where}: {key} has no values.")
        if f"{{{key}}}" not in line.name:
            raise UserError(f"{where}: {key} has several values, so the name needs {{{key}}}.")
    for chosen in itertools.product(*grid.values()):
        names = {key: name for key, (name, _) in zip(grid, chosen, strict=True)}
        settled = given | {key: value for key, (_, value) in zip(grid, chosen, strict=True)}
        yield _filled(line.name, settled | names), settled


def _filled(template: str, shown: Raw) -> str:
    """The name of a line with the values of its grid in the places of their keys."""
    return re.sub(r"\{(\w+)\}", lambda found: str(shown.get(found[1], found[0])), template)


def _named_values(given: list[object] | Raw) -> list[tuple[str, object]]:
    """The values of a grid, each with the name that it has in the table."""
    return list(given.items()) if isinstance(given, dict) else [(str(value), value) for value in given]


def _settings(name: str, where: str, given: Raw) -> Settings:
    settings: Settings = {}
    for key, value in given.items():
        if key not in SETTINGS:
            raise UserError(
                f"The study {name!r}: {where} has an unknown key {key!r}.{nearest(key, SETTINGS)} "
                f"Known: {', '.join(SETTINGS)}."
            )
        if isinstance(value, list):
            settings[key] = tuple(map(str, value))
        elif isinstance(value, dict):
            settings[key] = {str(one): str(other) for one, other in value.items()}
        elif isinstance(value, str | int | float):
            settings[key] = value
        else:
            raise UserError(f"The study {name!r}: {where} sets {key} to {value!r}; expected a text or a number.")
    return settings


def _published(
    study: str, row: str, given: Sequence[float | str] | Mapping[str, Sequence[float | str]], columns: int
) -> tuple[PublishedFigure | None, ...]:
    listed = given.get(row, []) if isinstance(given, Mapping) else given
    if listed and len(listed) != columns:
        raise UserError(
            f"The study {study!r}: the row {row!r} has {len(listed)} published figures for {columns} columns; "
            'put "" where the paper has none.'
        )
    return tuple(_figure(study, row, one) for one in listed)


def _figure(name: str, row: str, given: float | str) -> PublishedFigure | None:
    if not isinstance(given, str):
        return PublishedFigure(float(given))
    if given.strip() in ("", "-", "–", "—"):
        return None
    found = _PUBLISHED.fullmatch(given.strip())
    if not found:
        raise UserError(
            f"The study {name!r}: the row {row!r} has the published figure {given!r}; expected '71.6 ±1.4'."
        )
    return PublishedFigure(float(found[1]), float(found[2]) if found[2] else None)


def _check(study: Study) -> None:
    rows, columns = [row.name for row in study.rows], [column.name for column in study.columns]
    if not rows or not columns:
        raise UserError(f"The study {study.name!r} has no {'columns' if rows else 'rows'}.")
    for kind, names in (("row", rows), ("column", columns)):
        twice = next((one for one in names if names.count(one) > 1), None)
        if twice is not None:
            raise UserError(f"The study {study.name!r} has two {kind}s named {twice!r}.")
    for kind, names, wanted in (
        ("row", rows, [one for row in study.rows for one in row.mean]),
        ("row", rows, [study.baseline] if study.baseline else []),
        ("row", rows, [one for analysis in study.analyses for one in analysis.rows]),
        ("column", columns, [one for column in study.columns for one in column.made_of]),
        ("column", columns, [one for analysis in study.analyses for one in analysis.columns]),
        ("column", columns, [one for correlation in study.correlations for one in correlation.columns]),
    ):
        for one in wanted:
            if one not in names:
                raise UserError(f"The study {study.name!r} has no {kind} {one!r}.{nearest(one, names)}")
    if len(rows) * len(columns) > _MOST:
        raise UserError(f"The study {study.name!r} has {len(rows) * len(columns):,} cells, more than {_MOST:,}.")
    for _ in study.cells():
        pass  # each says what it lacks


def _cell(study: Study, row: StudyLine, column: StudyLine) -> StudyCell:
    """A cell: what the study says of all cells, under what its column says, under what its row says.

    Raises:
        UserError: it is not told what makes it, or a setting is of another kind of cell.
    """
    where, own = f"the cell {row.name!r} · {column.name!r}", {**column.settings, **row.settings}
    settings = {**study.settings, **own}
    kind: CellKind = "arena" if "axis" in settings else "run" if "agent" in settings else "retrieve"
    if kind == "retrieve" and "retriever" not in settings:
        raise UserError(f"The study {study.name!r}: {where} names neither an agent nor a retriever.")
    if "benchmark" not in settings:
        raise UserError(f"The study {study.name!r}: {where} names no benchmark.")
    takes = {*COMMON, *OF_KIND[kind], *(OF_KIND["run"] if kind == "arena" else ())}
    if wrong := [key for key in own if key not in takes]:
        raise UserError(f"The study {study.name!r}: {where} is made by a {kind}, which takes no {wrong[0]!r}.")
    taken = {key: value for key, value in settings.items() if key in takes}
    try:
        return StudyCell(row=row.name, column=column.name, kind=kind, settings=_written_out(taken))
    except UserError as error:
        raise UserError(f"The study {study.name!r}: {where}: {error}") from None


def _written_out(settings: Settings) -> Settings:
    """The settings, with what only adds to others put into these.

    `parameters` and a run's `query_generation` go into the agent, so that a row can set one whatever agent a column
    names; `reranker` with `rerank_top` goes around the retriever.

    Raises:
        UserError: an agent or a retriever that is no spec.
    """
    made = dict(settings)
    added, reranker, top = made.pop("parameters", {}), made.pop("reranker", None), made.pop("rerank_top", 100)
    given = dict(added) if isinstance(added, dict) else {}
    if "agent" in made and "query_generation" in made:
        given["query_generation"] = str(made.pop("query_generation"))
    if given:
        inside = ",".join(f"{key}={value}" for key, value in given.items())
        made["agent"] = str(parse(str(made["agent"])).having(**parse(f"agent[{inside}]").parameters))
    if reranker is not None:
        if not isinstance(top, int):
            raise UserError(f"rerank_top is {top!r}; expected a whole number.")
        inner = parse(str(made["retriever"]))
        of = inner if inner.parameters else inner.name
        made["retriever"] = str(Spec("rerank", {"of": of, "model": str(reranker), "top": top}))
    return made
