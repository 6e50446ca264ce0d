"""What adapters of external engines share: ids and order of hits, names of fields, the metric of queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragrounds.errors import UserError
from ragrounds.tools.embedders import Metric
from ragrounds.tools.external_index import EngineHit
from ragrounds.tools.external_parameters import ExternalParameters, FieldMap, Record, query_encoding, text_of
from ragrounds.tools.push import PushRow


def hit_id(record: Record, id: str, text: str) -> str:
    """The id of a record: what its field `id` holds, or a hash of the field `text`."""
    held = text_of(record, id)
    return held or hashlib.blake2b(text_of(record, text).encode("utf-8", "replace"), digest_size=8).hexdigest()


def in_order(hits: Iterable[EngineHit]) -> list[EngineHit]:
    """Hits, best first; of equal scores by id, since engines give them in any order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def query_metric(given: ExternalParameters) -> Metric:
    """The metric of the model that makes vectors of queries; cosine where there is none, as in a search by words."""
    return query_encoding(given).metric if given.embed else "cosine"


def paths_in(record: Record, before: str = "") -> Iterator[str]:
    """The names of a record's fields, with dots for those inside others."""
    for name, value in record.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping):
            yield from paths_in(value, f"{before}{name}.")


def tops(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns in which fields of these names stand: the very name, or the part before its first dot. Each once."""
    found = (name if name in columns else name.split(".")[0] for name in names)
    return list(dict.fromkeys(column for column in found if column in columns))


def flat_fields(fields: FieldMap, retriever: str) -> dict[str, str]:
    """What a pushed passage's id, document, title, text and vector are called in a table, which has no fields inside
    others.

    Raises:
        UserError: a name has a dot, or two are the same.
    """
    names = {one: str(getattr(fields, one)) for one in ("id", "document", "title", "text", "vector")}
    dotted = [name for name in names.values() if "." in name]
    if dotted or len(set(names.values())) < len(names):
        wrong = f"{dotted[0]!r} has a dot" if dotted else "two of them are the same"
        raise UserError(
            f"Cannot push to {retriever} under these names of fields: {wrong}. Give each a plain name, or none."
        )
    return names


def texts_of(row: PushRow, names: Mapping[str, str]) -> dict[str, object]:
    """A passage on its way as a record, without its vector. `names` are those of :func:`flat_fields`."""
    return {names[one]: getattr(row, one) for one in ("id", "document", "title", "text")}
