"""Where models are asked: the addresses of a command, the name of their group, and whether their servers are still
those of the last time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ragrounds.api.event_loop import finish
from ragrounds.api.workspace import JournalMode, one_of, open_store, texts, user_prices
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.engine.servers import meet_servers
from ragrounds.evals.store.store import Store
from ragrounds.models.options import with_defaults
from ragrounds.models.providers import open_model
from ragrounds.tools.index.embedding_servers import embedding_models, with_fingerprints

if TYPE_CHECKING:
    from ragrounds.evals.engine.servers import MetServers
ServerChanged = Literal["stop", "new"]
"""What is done where another server answers at an address than the last time: stop, or keep its answers apart."""


def server_defaults(
    base_url: str | Sequence[str] | None, alias: str | None, settings: Settings
) -> dict[str, str | None]:
    """The parameters that say where models are asked which name no server: those given, or else the settings'.

    Raises:
        UserError: an alias, and nothing that it would name.
    """
    url = ",".join(texts(base_url or ()))
    if url:
        return {"base_url": url, "alias": alias}
    if alias and not settings.base_url:
        raise UserError(f"--alias {alias} is the name of a server or a group: give --base-url, too.")
    return {"base_url": settings.base_url, "alias": (alias or settings.alias) if settings.base_url else None}


def met_servers(
    store: Store,
    models: Iterable[str],
    changed: ServerChanged = "stop",
    journal: JournalMode = "reuse",
    resumed: Run | None = None,
) -> MetServers:
    """Ask the servers of some models what they are, unless the journal is replayed, and compare it with what the store
    knows.

    Raises:
        UserError: another server answers than the last time, and `changed` says stop; servers that share calls differ.
    """
    one_of("--server-changed", changed, ("stop", "new"))
    return finish(meet_servers(store, models, changed=changed, replay=journal == "replay", resumed=resumed))


def met_retrievers(
    specs: Iterable[str], settings: Settings, changed: ServerChanged = "stop", journal: JournalMode = "reuse"
) -> tuple[str, ...]:
    """Retrievers' specs with the fingerprints of the servers that their embedders ask, where they have one. The store
    is opened only where there are such servers.

    Raises:
        UserError: as :func:`met_servers`; a spec that cannot be read.
    """
    given = tuple(specs)
    models = [text for spec in given for text in embedding_models(parse(spec))]
    if not models:
        return given
    with open_store(settings) as store:
        met = met_servers(store, models, changed, journal)
    return tuple(str(with_fingerprints(parse(spec), met.texts)) for spec in given)


def open_judges(
    store: Store,
    names: Sequence[str],
    settings: Settings,
    *,
    base_url: str | None = None,
    alias: str | None = None,
    changed: ServerChanged = "stop",
    journal: JournalMode = "reuse",
) -> list[Model]:
    """The models that judge, by the servers that answer now; where none is named, the model of the settings.

    Raises:
        UserError: none, one named twice, or one that cannot be opened; as :func:`met_servers`.
    """
    named = list(names) or ([settings.model] if settings.model else [])
    if not named:
        raise UserError("No judge was given. Give one with --judge, such as openai:gpt-4o-mini.")
    defaults = server_defaults(base_url, alias, settings)
    judges = [with_defaults(text, defaults) for text in named]
    opened, prices = met_servers(store, judges, changed, journal).texts, user_prices(settings)
    models = [open_model(opened.get(text, text), prices) for text in judges]
    if len({model.spec for model in models}) < len(models):
        raise UserError("A judge is given twice: its vote would count double.")
    return models
