"""Every way to add to ragrounds, on one page.

A hook says what one kind of addition is, and where such objects are looked for. Those that ship are objects at the top
level of the modules of a folder: a new file adds one, without a list. A package adds one by an entry point of the
hook's group, whose name is the object's, and a user names one as ``package.module:NAME`` or ``./file.py:NAME``. All
three are found by :class:`ragrounds.plugins.ExtensionPoint` and held to the same checks; nothing in the core imports
an object that is found so (``.importlinter``). docs/how-to/plugins.md has an example of each.
"""

from __future__ import annotations

from typing import NamedTuple


class Hook(NamedTuple):
    """One kind of thing that can be added."""

    noun: str
    """What one is called in errors: ``scorer``."""
    expected: str
    """What an object must be, in words."""
    folder: str
    """The package whose modules hold those that ship."""
    listing: str = ""
    """The command that lists all."""
    group: str = ""
    """The group of entry points; empty: only what ships is found."""
    point: str = ""
    """``module:NAME`` of its extension point, which has the objects' class and the check."""


SCORER = Hook(
    noun="scorer",
    expected="a scorer, an object of a ScorerRecord",
    folder="ragrounds.evals.scorers",
    listing="ragrounds list scorers",
    group="ragrounds.scorers",
    point="ragrounds.evals.scorers.catalogue:SCORERS",
)
"""Reads a stored attempt against its gold, by rules. An object of a class of one's own::

    class Mine(ScorerRecord):
        def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score: ...

    MINE = Mine(name="mine", summary="…", method="…", kinds=("choice",))
"""

JUDGE_METHOD = Hook(noun="way of judging", expected="a JudgeMethod", folder="ragrounds.evals.scorers")
"""A scorer that goes by a model's verdicts: beside the scorer, the :class:`~ragrounds.evals.scorers.judged.JudgeMethod`
that asks for them, in the same file."""

AGENT = Hook(
    noun="agent",
    expected="a function that gives a graph, or a Card",
    folder="ragrounds.agents",
    listing="ragrounds list agents",
    group="ragrounds.agents",
    point="ragrounds.agents.agent:AGENTS",
)
"""What answers questions. Those that ship are TOML files of the folder; another one is a
:class:`~ragrounds.agents.card.Card`, or a function that gives a LangGraph graph::

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
    folder="ragrounds.evals.exchange",
    listing="ragrounds export --help",
    group="ragrounds.exports",
    point="ragrounds.evals.exchange.formats:EXPORTS",
)
"""Writes runs to files, or sends them to a server that the user names::

    def parts(export: Export[Options]) -> Iterator[ExportPart]: ...
    def send(export: Export[Options]) -> str: ...

    FORMAT = ExportFormat(name="mine", summary="…", writes="file", options=Options, parts=parts)
"""

IMPORT = Hook(
    noun="import format",
    expected="an Importer",
    folder="ragrounds.evals.exchange.importers",
    listing="ragrounds import --help",
    group="ragrounds.importers",
    point="ragrounds.evals.exchange.importers.importer:IMPORTERS",
)
"""Reads answers of other systems out of files of one form::

    def rows(file: ImportFile) -> Iterator[ImportedRow | BadRow]: ...

    MINE = Importer(name="mine", summary="…", recognises=lambda file: "theirs" in file.first, rows=rows)
"""

PRINTED = Hook(noun="papers' tables", expected="a PrintedTables", folder="ragrounds.evals.studies")
"""Figures that papers printed: :class:`~ragrounds.evals.compare.published.PrintedTables`, shown below a run's own."""

VIEW = Hook(noun="view", expected="a View", folder="ragrounds.ui.trace.views")
"""A view of the attempts in the terminal viewer::

    def opens(attempt_list: AttemptList, notes: ReaderNotes, places: tuple[int, ...]) -> ViewScreen: ...

    MINE = View(name="mine", key="5", title="…", opens=opens)
"""

DATABASE = Hook(noun="kind of database", expected="a Dialect, and `open_url`", folder="ragrounds.evals.store")
"""Where a store is, by the scheme of its URL: the module of the folder that has the scheme's name, with the
:class:`~ragrounds.evals.store.dialect.Dialect` under that name in capitals, and::

    def open_url(url: sa.URL) -> sa.Engine: ...
"""

CLUSTER = Hook(noun="engine", expected="`open_cluster`", folder="ragrounds.evals.engine.distributed")
"""What a run's questions are distributed to (``--engine ray``); each link is a worker::

    async def open_cluster(workers: int | None, concurrency: int, shared_store: bool, held: ExitStack,
                           say: Callable[[str], None]) -> Sequence[Link]: ...
"""

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
    VIEW,
    DATABASE,
    CLUSTER,
)
