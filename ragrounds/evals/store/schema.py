"""Tables of a store (SQLAlchemy Core: SQLite by default, PostgreSQL by URL)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa

from ragrounds.base.records import COUNTED, Usage

Row = tuple[sa.Table, Mapping[str, object]]
"""Row to be written, and its table."""

FIRST_VERSION = 2
"""Version of the tables of ragrounds 1.0."""
MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = ()
"""Steps from each released version to the next, the first from 2 to 3. Empty: only this version was released.

From then on a change of a table here appends a step that makes the same change. The step must not use the tables of
this file, because later versions change them. All steps of a store are one transaction under a lock, together with the
new number.
"""
VERSION = FIRST_VERSION + len(MIGRATIONS)
"""Version of these tables. A store of an earlier release is brought to it; one of a later release is refused."""

metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any], comment: str | None = None, rowid: bool = False) -> sa.Table:
    return sa.Table(name, metadata, *columns, comment=comment, sqlite_with_rowid=rowid)


def _column(
    kind: type[sa.types.TypeEngine[Any]],
    name: str,
    about: str | None = None,
    *,
    key: bool = False,
    null: bool = False,
    **options: Any,
) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=key, nullable=null, comment=about, **options)


_text, _whole = partial(_column, sa.Text), partial(_column, sa.Integer)
_real, _bytes = partial(_column, sa.Float), partial(_column, sa.LargeBinary)


def _checksum() -> sa.Column[Any]:
    """Return the column for the checksum of the other columns (:mod:`ragrounds.evals.store.row_sums`), which reveals
    every change.
    """
    return _bytes("checksum")


def _owner(name: str, table: str) -> sa.Column[Any]:
    """Return the column for the number of the run or arena to which a row belongs. The row is deleted with its
    owner.
    """
    return sa.Column(name, sa.Integer, sa.ForeignKey(f"{table}.number", ondelete="CASCADE"), primary_key=True)


def _attempt_key() -> list[sa.Column[Any]]:
    """Return the columns of an attempt's key."""
    return [_owner("run", "runs"), _text("question_id", key=True), _whole("epoch", key=True)]


meta = _table(
    "meta",
    _text("key", key=True),
    _text("value"),
    rowid=True,
)

RUN_NAME = "name:"
"""Prefix of keys in `meta` whose value is the name of a run; its id follows."""
LAST_COMMAND = "last command"
"""Key in `meta` whose value is the ids of the runs that the last command made or resumed, one a line."""
RUN_SCORER = "scored:"
"""Prefix of keys in `meta` that name a scorer with scores of a run; the run's id, a space and the scorer follow."""
JUDGING_SUMS = "judging:"
"""Prefix of keys in `meta` whose value is the sums of the calls of a run's judges, as JSON; the run's id follows."""
TEXTS_REMOVED = "swept"
"""Key in `meta` whose value changes whenever texts are removed."""

blobs = _table(
    "blobs",
    _bytes("hash", key=True),
    _bytes("data"),
    comment="Long texts, each once, by content hash: passages, prompts, replies.",
    rowid=True,
)

calls = _table(
    "calls",
    _bytes("key", key=True),
    _text("kind"),
    _text("actor"),
    _real("at"),
    _real("seconds"),
    _bytes("request"),
    _bytes("response"),
    _bytes("payer", "who paid for it first; null: not paid", null=True),
    _checksum(),
    comment="The journal. It only adds.",
    rowid=True,
)

recalls = _table(
    "recalls",
    _bytes("payer", key=True),
    _bytes("key", key=True),
    _bytes("response"),
    comment="What --journal fresh was answered, for who paid: taken again only where its work was broken off.",
)

questions = _table(
    "questions",
    _text("set", key=True),
    _whole("position", key=True),
    _text("question_id"),
    _bytes("body"),
    comment="Questions and golds as they were when a run answered them.",
    rowid=True,
)

runs = _table(
    "runs",
    _whole("number", key=True),
    _text("id", unique=True),
    _text("fingerprint", index=True),
    _real("created"),
    _bytes("body"),
    rowid=True,
)


attempts = _table(
    "attempts",
    *_attempt_key(),
    _text("status"),
    _text("reason"),
    *(_whole(name, null=True) for name in Usage.__struct_fields__),
    _real("cost_paid", null=True),
    _real("cost_uncached", null=True),
    _real("seconds"),
    _real("waited", "of these, waiting for servers that report when they worked; null: not known", null=True),
    _real("at"),
    _bytes("body", "final text, events and choice"),
    _text("models", "JSON, [asked, named in the reply, calls] …; null: none", null=True),
    *(_whole(name, about) for name, about in COUNTED.items()),
    _checksum(),
)


facts = _table(
    "facts",
    *_attempt_key(),
    _real("at", "of the attempt that they are of: one that was made again has none until they are made again"),
    _whole("steps"),
    _whole("hops", "searches that gave a result"),
    _whole("repeated", "searches for what was searched before"),
    _whole("failed_calls"),
    _whole("failed_searches"),
    _whole("faults", "tries that gave no reply"),
    _whole("gold", "gold documents of the question; null: none are known", null=True),
    _whole("gold_found", "of these, in some search's result; null: whether it searched is not known", null=True),
    _whole("gold_seen", "of these, whole or cut in some prompt", null=True),
    _whole("gold_cut", "of these, no more than their beginning in any prompt", null=True),
    _whole("gold_rank", "best rank of one, from 1; null: none was found", null=True),
    _whole("gold_hop", "first search that found one, from 1", null=True),
    _text("notes", "kinds of notes, with a space before and after each"),
    _checksum(),
    comment="What can be asked of an attempt without reading its steps. Derived: made again where it is missing.",
)

notes = _table(
    "notes",
    *_attempt_key(),
    _text("author", key=True),
    _text("mark", "one word of the reader's own; empty: none"),
    _text("text"),
    _real("at"),
    _checksum(),
    comment="Notes of readers on attempts.",
)

reads = _table(
    "reads",
    _owner("run", "runs"),
    _text("kind", key=True),
    _text("name", "a file as seen from the system's folder, a variable, a package, a server, a model", key=True),
    _text("value", "a digest, a version, a value; two of one name: it changed while the run went on", key=True),
    _whole("size", "of a file, in bytes"),
    _real("at", "when a file was changed, or a model was asked first"),
    _checksum(),
    comment="Dependencies of a run's system: if one changes, so does the system.",
)

DERIVED = (facts,)
"""Tables that are derived from the journal and never copied to another store."""

scores = _table(
    "scores",
    _owner("run", "runs"),
    _text("scorer", key=True),
    _text("question_id", key=True),
    _whole("epoch", key=True),
    _real("value", null=True),
    _text("answer_status"),
    _text("prediction"),
    _text("reason"),
    _text("code", "digest of scorer, prompts and parser; null: not known", null=True),
    _checksum(),
)

gradings = _table(
    "gradings",
    _owner("run", "runs"),
    _bytes("key", key=True),
    _bytes("body", "the call, with its price"),
    _checksum(),
    comment="Calls that judges of a run's answers made or reused: its scores depend on them, no attempt names them.",
)

regradings = _table(
    "regradings",
    _owner("run", "runs"),
    _bytes("key", key=True),
    _real("at", key=True),
    _bytes("body", "the call, with its price"),
    _checksum(),
    comment="Calls of `gradings` that judges made and that were paid once more: --journal fresh.",
)

stoppings = _table(
    "stoppings",
    _owner("run", "runs"),
    _text("claim", key=True),
    _text("seed", "of the order of its questions, which has any size", key=True),
    _bytes("body"),
    _checksum(),
    comment="Claims that a run was watched for, and their state: its length depended on its own results.",
)

leases = _table(
    "leases",
    _text("run", "its id", key=True),
    _text("owner"),
    _text("host"),
    _text("machine"),
    _whole("pid"),
    _text("started"),
    _whole("beat", "counted up while the owner lives"),
    comment="Who is working at a run.",
)

arenas = _table(
    "arenas",
    _whole("number", key=True),
    _text("id"),
    _text("fingerprint", unique=True),
    _real("created"),
    _bytes("body"),
    rowid=True,
)

judgements = _table(
    "judgements",
    _owner("arena", "arenas"),
    _whole("judge", "place among the arena's judges", key=True),
    _text("question_id", key=True),
    _whole("first", "system shown first: place among the arena's systems", key=True),
    _whole("second", key=True),
    _whole("part", "which of the arena's calls for a pair", key=True),
    _whole("number", "the match's place in the order of play"),
    _text("outcomes", "a letter an axis: 1 2 = ? (unparsable) ! (call failed)"),
    _text("how", "asked, cut, empty or identical"),
    _whole("calls"),
    _whole("input", null=True),
    _whole("output", null=True),
    _real("cost_paid", null=True),
    _real("cost_uncached", null=True),
    _bytes("body", "reasons and calls"),
    _checksum(),
)

votes = _table(
    "votes",
    _owner("arena", "arenas"),
    _text("voter", key=True),
    _text("question_id", key=True),
    _whole("first", "the smaller place among the arena's systems", key=True),
    _whole("second", key=True),
    _text("axis", key=True),
    _text("outcome", "first, second, tie or skip"),
    _real("at"),
    _checksum(),
    comment="Human votes, cast in the terminal or read from a file.",
)

servers = _table(
    "servers",
    _text("server", "the model and its server's address or alias", key=True),
    _text("fingerprint", "as in the model's identity; empty: the first seen", key=True),
    _text("facts", "what it said of the model, as JSON"),
    _real("first"),
    _real("last"),
    _checksum(),
    comment="What servers report about themselves: it shows that another server has the address.",
)
