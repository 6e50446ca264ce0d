"""All hooks, that is, all ways to add to ragrounds.

A hook describes one kind of addition and the locations of its objects:

- in the modules of the core's folder: a new file there adds an object, without a central list;
- in the folder or module of the same name of each extension: ``ragrounds/extensions/NAME/retrievers/`` adds to
  ``ragrounds/tools/retrievers/``, and ``ragrounds/extensions/NAME/cli.py`` to ``ragrounds/cli/``;
- in installed packages, by an entry point of the hook's group with the object's name;
- at an import path that a user types, ``package.module:NAME`` or ``./file.py:NAME``.

All are found by :class:`ragrounds.base.plugins.ExtensionPoint` and pass the same checks. docs/how-to/plugins.md has an
example of each. Agents and graphs ship in the core only.

An extension is a folder ``ragrounds/extensions/NAME/`` that can be deleted; no module of the core imports it. Its
``__init__.py`` is imported to list its contents, so it contains only constants. ``BASES`` lists the extensions that it
imports (it is left out if one of them is missing). ``FUNCTIONS`` lists its public functions, each as ``module:NAME``.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

EXTENSIONS = "ragrounds.extensions"


class Hook(NamedTuple):
    """One kind of addition."""

    noun: str
    """Name of such an object in errors: ``scorer``."""
    expected: str
    """Description of a valid object."""
    folder: str
    """Package whose modules contain the core's objects. Its last part is the folder's name in extensions."""
    listing: str = ""
    """Command that lists all objects."""
    group: str = ""
    """Group of entry points. Empty if installed packages cannot add any."""
    point: str = ""
    """``module:NAME`` of the extension point, which has the objects' class and the check."""

    @property
    def folders(self) -> list[str]:
        """Return the core's folder, then the possible folders of extensions."""
        name = self.folder.rpartition(".")[2]
        return list(dict.fromkeys((self.folder, *(f"{EXTENSIONS}.{extension}.{name}" for extension in extensions()))))

    def modules(self) -> dict[str, Path]:
        """Return the modules of all folders by dotted name, each with its file. None is imported."""
        modules: dict[str, Path] = {}
        for folder in self.folders:
            spec = module_spec(folder)
            if spec is None:
                continue
            if spec.submodule_search_locations is None:
                modules[folder] = Path(spec.origin or "")
            for module in pkgutil.iter_modules(spec.submodule_search_locations or ()):
                file = f"{module.name}/__init__.py" if module.ispkg else f"{module.name}.py"
                modules[f"{folder}.{module.name}"] = Path(module.module_finder.path, file)  # type: ignore[union-attr]
        return modules

    def module(self, name: str) -> str | None:
        """Return the dotted name of the module of this name in the first folder that has one, or ``None``."""
        names = (f"{folder}.{name}" for folder in self.folders)
        return next(
            (module_name for module_name in names if name.isidentifier() and module_spec(module_name) is not None), None
        )

    def is_extended(self) -> bool:
        """Return True if installed packages have entry points of the group, judging by their files only.

        This takes some milliseconds, a tenth of what importlib.metadata takes. ``ragrounds --help`` needs it.
        """
        for folder in sys.path:
            try:
                names = os.listdir(folder or ".")  # noqa: PTH208 - half the time of Path.iterdir
            except OSError:
                continue
            for name in names:
                if name.endswith((".dist-info", ".egg-info")):
                    try:
                        with open(f"{folder or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                            if f"[{self.group}]".encode() in file.read():
                                return True
                    except OSError:
                        pass
        return False


def module_spec(name: str) -> ModuleSpec | None:
    """Return the import spec of a module, or ``None`` if the module or a parent package does not exist."""
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None


@cache
def extensions() -> dict[str, ModuleType]:
    """Return the extensions by name, without those whose bases are missing."""
    spec = module_spec(EXTENSIONS)
    search_path = spec.submodule_search_locations if spec else None
    by_name = {
        module.name: import_module(f"{EXTENSIONS}.{module.name}") for module in pkgutil.iter_modules(search_path or ())
    }
    while incomplete := [
        name for name, package in by_name.items() if not by_name.keys() >= {*getattr(package, "BASES", ())}
    ]:
        by_name = {name: package for name, package in by_name.items() if name not in incomplete}
    return by_name


def extension_functions() -> dict[str, str]:
    """Return the module of each public function of the extensions, by the function's name."""
    locations = (location for package in extensions().values() for location in getattr(package, "FUNCTIONS", ()))
    return {name: module for module, _, name in (location.partition(":") for location in locations)}


SCORER = Hook(
    noun="scorer",
    expected="a scorer, an object of a ScorerRecord",
    folder="ragrounds.evals.scorers",
    listing="ragrounds list scorers",
    group="ragrounds.scorers",
    point="ragrounds.evals.scorers.catalogue:SCORERS",
)
"""Scores a stored attempt against its gold, by rules: an object of a custom class::

    class Mine(ScorerRecord):
        def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score: ...

    MINE = Mine(name="mine", summary="…", method="…", kinds=("choice",))
"""

JUDGE_METHOD = Hook(noun="way of judging", expected="a JudgeMethod", folder="ragrounds.evals.scorers")
"""A scorer that depends on a model's verdicts. The same file contains the scorer and the
:class:`~ragrounds.evals.scorers.judged.JudgeMethod` that requests the verdicts.
"""

AGENT = Hook(
    noun="agent",
    expected="a function that gives a graph, or a Card",
    folder="ragrounds.agents",
    listing="ragrounds list agents",
    group="ragrounds.agents",
    point="ragrounds.agents.agent:AGENTS",
)
"""Answers questions. Shipped agents are TOML files of the folder. Any other agent is a
:class:`~ragrounds.agents.card.Card`, or a function that returns a LangGraph graph::

    @agent(summary="…", parameters={"top_k": 8})
    def build(top_k: int) -> StateGraph: ...
"""

STRATEGY = Hook(noun="graph", expected="a module with `build` and `PROMPTS`", folder="ragrounds.graphs")
"""The graph that an agent's file names (``graph = "vanilla_rag"``)::

    PROMPTS = ("answer/docs",)
    def build() -> StateGraph[State, Context, State, State]: ...
"""

FAMILY = Hook(
    noun="benchmark",
    expected="a Family",
    folder="ragrounds.evals.benchmarks.families",
    listing="ragrounds data ls",
    group="ragrounds.benchmarks",
    point="ragrounds.evals.benchmarks.family:FAMILIES",
)
"""Reads a benchmark in its authors' form::

    def items(source: BenchmarkSource) -> Iterator[Item]: ...

    FAMILY = Family(name="mine", items=items, file="mine.tsv")
"""

RETRIEVER = Hook(
    noun="retriever",
    expected="a Retriever",
    folder="ragrounds.tools.retrievers",
    listing="ragrounds list retrievers",
    group="ragrounds.retrievers",
    point="ragrounds.tools.retriever:RETRIEVERS",
)
"""Finds passages: over a corpus, over other retrievers, at a search engine by others, or on the web::

    def open_it(spec: Spec, corpora: SearchedCorpora) -> Searcher: ...

    MINE = Retriever(name="mine", summary="…", example="mine[pool=20]", open=open_it)
"""

DOCUMENT = Hook(noun="reader of documents", expected="a DocumentReader", folder="ragrounds.tools.documents")
"""Reads the files of some endings into title and text::

    def read(data: bytes, reading: str, largest: int) -> DocumentText: ...

    MINE = DocumentReader("mine", (".mine",), read)
"""

ANALYSIS = Hook(
    noun="analysis",
    expected="an Analysis",
    folder="ragrounds.evals.analyses",
    listing="ragrounds list analyses",
    group="ragrounds.analyses",
    point="ragrounds.evals.analyses.analysis:ANALYSES",
)
"""A figure or table made of stored runs::

    def measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> R: ...
    def table(record: R, options: AnalysisOptions) -> AnalysisTable: ...
    def picture(record: R, options: AnalysisOptions) -> Picture: ...

    MINE = Analysis(name="mine", summary="…", needs="…", measure=measure, table=table, picture=picture)
"""

EXPORT = Hook(
    noun="export format",
    expected="an ExportFormat",
    folder="ragrounds.extensions.exchange.exporters",
    listing="ragrounds export --help",
    group="ragrounds.exports",
    point="ragrounds.extensions.exchange.formats:EXPORTS",
)
"""Writes runs to files, or sends them to a server that the user names::

    def parts(export: Export[Options]) -> Iterator[ExportPart]: ...
    def send(export: Export[Options]) -> str: ...

    FORMAT = ExportFormat(name="mine", summary="…", writes="file", options=Options, parts=parts)
"""

IMPORT = Hook(
    noun="import format",
    expected="an Importer",
    folder="ragrounds.extensions.exchange.importers",
    listing="ragrounds import --help",
    group="ragrounds.importers",
    point="ragrounds.extensions.exchange.importers.importer:IMPORTERS",
)
"""Reads answers of other systems out of files of one form::

    def rows(file: ImportFile) -> Iterator[ImportedRow | BadRow]: ...

    MINE = Importer(name="mine", summary="…", recognises=lambda file: "theirs" in file.first, rows=rows)
"""

PRINTED = Hook(noun="papers' tables", expected="a PrintedTables", folder="ragrounds.extensions.studies.printed")
"""Figures printed in papers: :class:`~ragrounds.evals.compare.published.PrintedTables`, shown below those of a run."""

VIEW = Hook(noun="view", expected="a View", folder="ragrounds.ui.trace.views")
"""A view of the attempts in the terminal viewer::

    def opens(attempt_list: AttemptList, notes: ReaderNotes, places: tuple[int, ...]) -> ViewScreen: ...

    MINE = View(name="mine", key="5", title="…", opens=opens)
"""

SECTION = Hook(noun="section", expected="a ReportSection", folder="ragrounds.ui.report.sections")
"""A section of the report, left out if it has no parts::

    def parts(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[ReportPart]: ...

    MINE = ReportSection(name="Mine", parts=parts)
"""

DATABASE = Hook(noun="kind of database", expected="a Dialect, and `open_url`", folder="ragrounds.evals.store")
"""Location of a store, by the scheme of its URL. The module of the folder that has the scheme's name contains the
:class:`~ragrounds.evals.store.dialect.Dialect` under that name in capitals, and::

    def open_url(url: sa.URL) -> sa.Engine: ...
"""

CLUSTER = Hook(noun="engine", expected="`executor`", folder="ragrounds.extensions.cluster.clusters")
"""Workers that share a run's questions: the module of the folder that has the name of ``--engine``, with::

    def executor(*, workers: int | None, in_flight: int, held: ExitStack, recipe: Recipe, home: Path, url: str | None,
                 say: Callable[[str], None], worker_timeout: float, store_timeout: float) -> Executor: ...

It returns a function with the parameters of :func:`ragrounds.evals.engine.scheduler.replay`. ``local`` also has
``leader``, for workers that join a running process.
"""

COMMAND = Hook(
    noun="command",
    expected="a typer.Typer that has a command or a group of this name",
    folder="ragrounds.cli",
    listing="ragrounds --help",
    group="ragrounds.commands",
    point="ragrounds.cli.installed:COMMANDS",
)
"""A command or a group of commands. The docstring of a module that ships begins with what ``--help`` shows, so that
nothing is imported for it::

    \"\"\"`ragrounds mine`: what it does.\"\"\"
    app = typer.Typer()

    @app.command("mine")
    def mine() -> None: ...
"""

FUNCTION = Hook(
    noun="public function",
    expected="a function or a class",
    folder="ragrounds.api",
    group="ragrounds.functions",
    point="ragrounds.api.functions:FUNCTIONS",
)
"""``rr.NAME``: a function, or a class that is used with one. ``ragrounds/__init__.py`` names those of the core, the
``FUNCTIONS`` of an extension its own, so that ``import ragrounds`` imports none of them."""

HOOKS = (
    SCORER,
    JUDGE_METHOD,
    AGENT,
    STRATEGY,
    FAMILY,
    RETRIEVER,
    DOCUMENT,
    ANALYSIS,
    EXPORT,
    IMPORT,
    PRINTED,
    VIEW,
    SECTION,
    DATABASE,
    CLUSTER,
    COMMAND,
    FUNCTION,
)
