"""Names that authors of scorers, agents, benchmarks and other additions import::

    from ragrounds.extend import ScorerRecord, no_text

The names stay when modules move; each is imported at its first use. docs/how-to/plugins.md has an example of each kind
of addition, :mod:`ragrounds.base.hooks` lists them all.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the one list: `places` reads it too
    from ragrounds.agents.card import Card as _AgentCard
    from ragrounds.agents.card import Limits as Limits
    from ragrounds.base.contracts import Context as Context
    from ragrounds.base.contracts import Searcher as Searcher
    from ragrounds.base.errors import UserError as UserError
    from ragrounds.base.records import Attempt as Attempt
    from ragrounds.base.records import Gold as Gold
    from ragrounds.base.records import Kind as Kind
    from ragrounds.base.records import Message as Message
    from ragrounds.base.records import Passage as Passage
    from ragrounds.base.records import Query as Query
    from ragrounds.base.records import Question as Question
    from ragrounds.base.records import Run as Run
    from ragrounds.base.records import Score as Score
    from ragrounds.base.specs import Spec as Spec
    from ragrounds.evals.analyses.analysis import Analysis as Analysis
    from ragrounds.evals.analyses.analysis import AnalysisOptions as AnalysisOptions
    from ragrounds.evals.analyses.analysis import AnalysisTable as AnalysisTable
    from ragrounds.evals.analyses.pictures import Mark as Mark
    from ragrounds.evals.analyses.pictures import Picture as Picture
    from ragrounds.evals.benchmarks.benchmark import Item as Item
    from ragrounds.evals.benchmarks.cards import Card as _BenchmarkCard
    from ragrounds.evals.benchmarks.family import BenchmarkSource as BenchmarkSource
    from ragrounds.evals.benchmarks.family import Family as Family
    from ragrounds.evals.scorers.answer_status import AnswerRead as AnswerRead
    from ragrounds.evals.scorers.answer_status import no_text as no_text
    from ragrounds.evals.scorers.answer_status import read_long as read_long
    from ragrounds.evals.scorers.base import ScorerRecord as ScorerRecord
    from ragrounds.evals.store.store import Store as Store
    from ragrounds.extensions.exchange.formats import Export as Export
    from ragrounds.extensions.exchange.formats import ExportFormat as ExportFormat
    from ragrounds.extensions.exchange.formats import ExportPart as ExportPart
    from ragrounds.extensions.exchange.formats import lines_file as lines_file
    from ragrounds.extensions.exchange.formats import run_file_name as run_file_name
    from ragrounds.extensions.exchange.importers.importer import BadRow as BadRow
    from ragrounds.extensions.exchange.importers.importer import ImportedRow as ImportedRow
    from ragrounds.extensions.exchange.importers.importer import Importer as Importer
    from ragrounds.extensions.exchange.importers.importer import ImportFile as ImportFile
    from ragrounds.extensions.exchange.importers.records import read_records as read_records
    from ragrounds.graphs.answer_prompts import answer_prompt as answer_prompt
    from ragrounds.graphs.documents import render_documents as _written
    from ragrounds.graphs.langchain import ContextModel as ContextModel
    from ragrounds.graphs.langchain import search as _search
    from ragrounds.graphs.langchain import tools as _tools
    from ragrounds.graphs.model_text import written_query as written_query
    from ragrounds.graphs.shapes import answered as _answered
    from ragrounds.graphs.shapes import branch as branch
    from ragrounds.graphs.shapes import joined as _joined
    from ragrounds.graphs.shapes import loop as loop
    from ragrounds.graphs.shapes import read as _read
    from ragrounds.graphs.shapes import vote as vote
    from ragrounds.graphs.state import Runtime as Runtime
    from ragrounds.graphs.state import State as State
    from ragrounds.graphs.state import int_parameter as _whole
    from ragrounds.graphs.user_graph import agent as agent
    from ragrounds.recorder.redaction import Redactor as Redactor
    from ragrounds.tools.retriever import Retriever as Retriever
    from ragrounds.tools.retriever import RetrieverParameter as RetrieverParameter
    from ragrounds.tools.retriever import SearchedCorpora as SearchedCorpora

    AgentCard = _AgentCard
    BenchmarkCard = _BenchmarkCard
    answer_from = _answered
    context_tools = _tools
    format_passages = _written
    join_passages = _joined
    read_passages = _read
    search_tool = _search
    whole_number = _whole


@cache
def name_locations() -> dict[str, str]:
    """Return where each name is defined, as ``module:NAME``."""
    import ast
    from pathlib import Path

    block = next(node for node in ast.parse(Path(__file__).read_bytes()).body if isinstance(node, ast.If)).body
    imports = [node for node in block if isinstance(node, ast.ImportFrom)]
    definitions = {
        alias.asname or alias.name: f"{statement.module}:{alias.name}"
        for statement in imports
        for alias in statement.names
    }
    renamed = (ast.unparse(node).split(" = ") for node in block if isinstance(node, ast.Assign))
    definitions |= {name: definitions[original] for name, original in renamed}
    return {name: definition for name, definition in definitions.items() if not name.startswith("_")}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name at its first use."""
        from importlib import import_module

        if name.startswith("_") or name not in (definitions := name_locations()):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, defined = definitions[name].partition(":")
        value = globals()[name] = getattr(import_module(module), defined)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *name_locations()})
