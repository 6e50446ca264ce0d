"""Missing requirements of a study's cell: data, index, weights or a key. Nothing is sent to a server for this check."""

from __future__ import annotations

from shlex import quote

from ragrounds.agents.agent import open_agent
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.catalogue import located, parse_reference
from ragrounds.extensions.studies.study import StudyCell, agent_text
from ragrounds.models.options import read_options, starts_server, with_defaults
from ragrounds.models.prices import read_prices
from ragrounds.models.providers import open_model
from ragrounds.models.started import command_of
from ragrounds.tools.corpora import corpora_of, corpus_source, is_source
from ragrounds.tools.index.collection import collection_names, open_named


def find_missing_requirements(cell: StudyCell, settings: Settings) -> str:
    """Return the missing requirements of a cell, a line each with how to get it; empty if none was detected."""
    messages = []
    for check in (_check_benchmark, _check_agent, _check_corpus, _check_model):
        try:
            check(cell, settings)
        except UserError as error:
            messages.append(str(error))
    return "\n".join(dict.fromkeys(messages))


def _check_benchmark(cell: StudyCell, settings: Settings) -> None:
    name = str(cell.settings["benchmark"])
    if not name.startswith(("rerank:", "sts:")) and (reference := parse_reference(name)).reader.needs:
        located(reference, settings.home)


def _check_agent(cell: StudyCell, settings: Settings) -> None:
    if "agent" in cell.settings:
        agent_text(cell.settings)


def _check_corpus(cell: StudyCell, settings: Settings) -> None:
    corpus = cell.settings.get("corpus")
    if not corpus or ("agent" in cell.settings and not open_agent(str(cell.settings["agent"])).card.searches):
        return
    for part in corpora_of(str(corpus)):
        if is_source(part):
            corpus_source(part)
        else:
            try:
                open_named(part, settings.home)
            except UserError as error:
                if part in collection_names(settings.home):
                    raise
                raise UserError(
                    f"{error} Build it: `ragrounds index build {quote(part)} --from FAMILY:PATH`."
                ) from error


def _check_model(cell: StudyCell, settings: Settings) -> None:
    cell_model(cell, settings, cell.settings.get("model"))


def cell_model(cell: StudyCell, settings: Settings, text: object) -> Model | None:
    """Open the model of a cell, at the cell's server; ``None`` if the cell names none.

    Raises:
        UserError: the model cannot be opened.
    """
    if text is None:
        return None
    url = cell.settings.get("base_url") or settings.base_url
    spec = with_defaults(str(text), {"base_url": str(url)} if url else {})
    model = open_model(spec, read_prices(settings.home))
    if starts_server(spec):
        command_of(read_options(parse(spec))).line(0)
    return model
