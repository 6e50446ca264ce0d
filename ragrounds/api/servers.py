"""Servers of models: the addresses of a command, the name of their group, and whether the servers have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragrounds.api.event_loop import finish
from ragrounds.api.workspace import open_store, texts
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.engine.servers import ProbedServers, ServerChanged, probe_servers
from ragrounds.evals.store.journal import Mode
from ragrounds.evals.store.store import Store
from ragrounds.models.options import with_defaults
from ragrounds.models.prices import read_prices
from ragrounds.models.providers import open_model
from ragrounds.tools.index.embedding_servers import embedding_models, with_fingerprints


def server_defaults(
    base_url: str | Sequence[str] | None, alias: str | None, settings: Settings
) -> dict[str, str | None]:
    """Return the parameters of models that name no server: the given ones, else the settings'.

    Raises:
        UserError: an alias is given without a server.
    """
    url = ",".join(texts(base_url or ()))
    if url:
        return {"base_url": url, "alias": alias}
    if alias and not settings.base_url:
        raise UserError(f"--alias {alias} is the name of a server or a group: give --base-url, too.")
    return {"base_url": settings.base_url, "alias": (alias or settings.alias) if settings.base_url else None}


def probe_model_servers(
    store: Store,
    models: Iterable[str],
    changed: ServerChanged = "stop",
    journal: Mode = "reuse",
    resumed: Run | None = None,
) -> ProbedServers:
    """Probe the servers of some models, unless the journal is replayed, and compare the result with the store's.

    Raises:
        UserError: a server has changed, and `changed` is ``stop``; or servers that share calls differ.
    """
    return finish(probe_servers(store, models, changed=changed, replay=journal == "replay", resumed=resumed))


def met_retrievers(
    specs: Iterable[str], settings: Settings, changed: ServerChanged = "stop", journal: Mode = "reuse"
) -> tuple[str, ...]:
    """Add the fingerprints of embedders' servers to the specs of retrievers.

    The store is opened only if there are such servers.

    Raises:
        UserError: as :func:`probe_model_servers`; a spec cannot be parsed.
    """
    retriever_specs = tuple(specs)
    models = [text for spec in retriever_specs for text in embedding_models(parse(spec))]
    if not models:
        return retriever_specs
    with open_store(settings) as store:
        probed = probe_model_servers(store, models, changed, journal)
    return tuple(str(with_fingerprints(parse(spec), probed.texts)) for spec in retriever_specs)


def open_judges(
    store: Store,
    names: Sequence[str],
    settings: Settings,
    *,
    base_url: str | None = None,
    alias: str | None = None,
    changed: ServerChanged = "stop",
    journal: Mode = "reuse",
) -> list[Model]:
    """Open the judges, with the facts of their servers; if none is named, the model of the settings.

    Raises:
        UserError: no judge is given, one is given twice or cannot be opened; as :func:`probe_model_servers`.
    """
    judge_names = list(names) or ([settings.model] if settings.model else [])
    if not judge_names:
        raise UserError("No judge was given. Give one with --judge, such as openai:gpt-4o-mini.")
    defaults = server_defaults(base_url, alias, settings)
    judges = [with_defaults(text, defaults) for text in judge_names]
    opened, prices = probe_model_servers(store, judges, changed, journal).texts, read_prices(settings.home)
    models = [open_model(opened.get(text, text), prices, settings.home) for text in judges]
    if len({model.spec for model in models}) < len(models):
        raise UserError("A judge is given twice: its vote would count double.")
    return models
