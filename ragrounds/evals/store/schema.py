"""The tables of a store (SQLAlchemy Core: SQLite by default, PostgreSQL by URL)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from ragrounds.records import COUNTED, Usage

Row = tuple[sa.Table, Mapping[str, object]]
"""A row to be written, and its table."""

MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = ()
"""Steps from each released version to the next, the first from 1 to 2. Empty: nothing but this version was released.

From then on a change of a table here appends a step that makes the same change, in its own words and never by the
tables of this file, which later versions change. Each is one transaction under a lock, together with the new number."""
VERSION = 1 + len(MIGRATIONS)
"""The version of these tables. A store of another one is refused."""

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

RUN_NAME = "name:"
"""How keys in `meta` begin whose value is what a run is called; its id follows."""
TEXTS_REMOVED = "swept"
"""Key in `meta`: its value changes whenever texts are removed."""

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("hash", sa.LargeBinary, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
    comment="Long texts, each once, by content hash: passages, prompts, replies.",
    sqlite_with_rowid=False,
)

calls = sa.Table(
    "calls",
    metadata,
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("response", sa.LargeBinary, nullable=False),
    sa.Column("payer", sa.LargeBinary, comment="who paid for it first; null: nobody"),
    comment="The journal. It only adds.",
    sqlite_with_rowid=False,
)

recalls = sa.Table(
    "recalls",
    metadata,
    sa.Column("payer", sa.LargeBinary, primary_key=True),
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("response", sa.LargeBinary, nullable=False),
    comment="What --journal fresh was answered, for who paid: taken again only where its work was broken off.",
    sqlite_with_rowid=False,
)

questions = sa.Table(
    "questions",
    metadata,
    sa.Column("set", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("question_id", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    comment="Questions and golds as they were when a run answered them.",
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("fingerprint", sa.Text, nullable=False, index=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)


def _attempt_columns() -> list[sa.Column[Any]]:
    """What is kept of an attempt beside its key, in both tables of attempts."""
    return [
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer) for name in Usage.__struct_fields__),
        sa.Column("cost_paid", sa.Float),
        sa.Column("cost_uncached", sa.Float),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False, comment="final text, events and choice"),
        sa.Column("models", sa.Text, comment="JSON, [asked, named in the reply, calls] …; null: none"),
        *(sa.Column(name, sa.Integer, nullable=False, comment=about) for name, about in COUNTED.items()),
    ]


attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    *_attempt_columns(),
    sa.Column("retry", sa.Integer, nullable=False, comment="which time it was made again; 0: its first attempt"),
    sqlite_with_rowid=False,
)

earlier_attempts = sa.Table(
    "earlier_attempts",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("retry", sa.Integer, primary_key=True, comment="0: the first attempt"),
    *_attempt_columns(),
    sa.Column("chosen", sa.Text, nullable=False, comment="what it was chosen by to be made again"),
    sa.Column("asked_again", sa.LargeBinary, nullable=False, comment="keys of calls whose replies are not taken again"),
    comment="Attempts as they were before they were made again; the one that stands in `attempts` too is to be.",
    sqlite_with_rowid=False,
)

facts = sa.Table(
    "facts",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("searches", sa.Integer, nullable=False, comment="that gave a result"),
    sa.Column("repeated", sa.Integer, nullable=False, comment="searches for what was searched before"),
    sa.Column("model_calls", sa.Integer, nullable=False),
    sa.Column("failed_calls", sa.Integer, nullable=False),
    sa.Column("failed_searches", sa.Integer, nullable=False),
    sa.Column("faults", sa.Integer, nullable=False, comment="tries that gave no reply"),
    sa.Column("gold", sa.Integer, comment="gold documents of the question; null: none are known"),
    sa.Column("gold_found", sa.Integer, comment="of these, in some search's result"),
    sa.Column("gold_seen", sa.Integer, comment="of these, whole or cut in some prompt"),
    sa.Column("gold_cut", sa.Integer, comment="of these, no more than their beginning in any prompt"),
    sa.Column("gold_rank", sa.Integer, comment="best rank of one, from 1; null: none was found"),
    sa.Column("gold_hop", sa.Integer, comment="first search that found one, from 1"),
    sa.Column("notes", sa.Text, nullable=False, comment="kinds of notes, with a space before and after each"),
    comment="What can be asked of an attempt without reading its steps. Derived: made again where it is missing.",
    sqlite_with_rowid=False,
)

notes = sa.Table(
    "notes",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("author", sa.Text, primary_key=True),
    sa.Column("mark", sa.Text, nullable=False, comment="one word of the reader's own; empty: none"),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    comment="What readers have written beside attempts.",
    sqlite_with_rowid=False,
)

text_attempts = sa.Table(
    "text_attempts",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False, comment="of the attempt; one made since is to be indexed again"),
    sa.Column("doc", sa.Integer, nullable=False, index=True, comment="the document of its own texts"),
    sa.Column("question", sa.Integer, comment="the document of its question"),
    sa.Column("passages", sa.LargeBinary, nullable=False, comment="documents of its passages, 4 bytes each, ascending"),
    comment="Attempts whose texts are in the full-text index. Derived: made again where it is missing.",
    sqlite_with_rowid=False,
)

text_shared = sa.Table(
    "text_shared",
    metadata,
    sa.Column("hash", sa.LargeBinary, primary_key=True),
    sa.Column("doc", sa.Integer, nullable=False),
    comment="Texts that many attempts share (passages, questions) and that are indexed once. Derived.",
    sqlite_with_rowid=False,
)

TEXT_FIELDS = ("question", "query", "passage", "reply", "tool", "prompt", "answer", "reason", "note")
"""The columns of the full-text index. Attempts have all but `question` and `passage`, which shared texts have."""
WORDS = "text_words"
"""The table of the full-text index, another one in each database."""
WORDS_ON_SQLITE = f"CREATE VIRTUAL TABLE {WORDS} USING fts5({', '.join(TEXT_FIELDS)}, content='', tokenize='ascii')"
WORDS_PARTS = frozenset(f"{WORDS}_{part}" for part in ("data", "idx", "docsize", "config"))
"""The tables in which SQLite keeps the index."""
DERIVED = (facts, text_attempts, text_shared)
"""Tables that are made from the journal: never copied to another store."""


scores = sa.Table(
    "scores",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("scorer", sa.Text, primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("value", sa.Float),
    sa.Column("answer_status", sa.Text, nullable=False),
    sa.Column("prediction", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("code", sa.Text, comment="digest of scorer, prompts and parser; null: not known"),
    sa.Column("checksum", sa.LargeBinary, comment="of the other columns but run and code, so that no bit flips unseen"),
    sqlite_with_rowid=False,
)

gradings = sa.Table(
    "gradings",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False, comment="the call, with its price"),
    comment="Calls that judges of a run's answers made or reused: its scores rest on them, no attempt names them.",
    sqlite_with_rowid=False,
)

regradings = sa.Table(
    "regradings",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("at", sa.Float, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False, comment="the call, with its price"),
    comment="Calls of `gradings` that judges made, and somebody paid for, once more: --journal fresh.",
    sqlite_with_rowid=False,
)

stoppings = sa.Table(
    "stoppings",
    metadata,
    sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("claim", sa.Text, primary_key=True),
    sa.Column("seed", sa.Text, primary_key=True, comment="of the order of its questions, which has any size"),
    sa.Column("body", sa.LargeBinary, nullable=False),
    comment="Claims that a run was watched for, and how they stood: how long it went on depended on its own results.",
    sqlite_with_rowid=False,
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("run", sa.Text, primary_key=True, comment="its id"),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("machine", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("started", sa.Text, nullable=False),
    sa.Column("beat", sa.Integer, nullable=False, comment="counted up while the owner lives"),
    comment="Who is working at a run.",
    sqlite_with_rowid=False,
)

arenas = sa.Table(
    "arenas",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

judgements = sa.Table(
    "judgements",
    metadata,
    sa.Column("arena", sa.Integer, sa.ForeignKey("arenas.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("judge", sa.Integer, primary_key=True, comment="place among the arena's judges"),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("first", sa.Integer, primary_key=True, comment="system shown first: place among the arena's systems"),
    sa.Column("second", sa.Integer, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True, comment="which of the arena's calls for a pair"),
    sa.Column("number", sa.Integer, nullable=False, comment="the match's place in the order of play"),
    sa.Column("outcomes", sa.Text, nullable=False, comment="a letter an axis: 1 2 = ? (unparsable) ! (call failed)"),
    sa.Column("how", sa.Text, nullable=False, comment="asked, cut, empty or identical"),
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("input", sa.Integer),
    sa.Column("output", sa.Integer),
    sa.Column("cost_paid", sa.Float),
    sa.Column("cost_uncached", sa.Float),
    sa.Column("body", sa.LargeBinary, nullable=False, comment="reasons and calls"),
    sqlite_with_rowid=False,
)

votes = sa.Table(
    "votes",
    metadata,
    sa.Column("arena", sa.Integer, sa.ForeignKey("arenas.number", ondelete="CASCADE"), primary_key=True),
    sa.Column("voter", sa.Text, primary_key=True),
    sa.Column("question_id", sa.Text, primary_key=True),
    sa.Column("first", sa.Integer, primary_key=True, comment="the smaller place among the arena's systems"),
    sa.Column("second", sa.Integer, primary_key=True),
    sa.Column("axis", sa.Text, primary_key=True),
    sa.Column("outcome", sa.Text, nullable=False, comment="first, second, tie or skip"),
    sa.Column("at", sa.Float, nullable=False),
    comment="Human votes, cast in the terminal or read from a file.",
    sqlite_with_rowid=False,
)

servers = sa.Table(
    "servers",
    metadata,
    sa.Column("server", sa.Text, primary_key=True, comment="the model and its server's address or alias"),
    sa.Column("fingerprint", sa.Text, primary_key=True, comment="as in the model's identity; empty: the first seen"),
    sa.Column("facts", sa.Text, nullable=False, comment="what it said of the model, as JSON"),
    sa.Column("first", sa.Float, nullable=False),
    sa.Column("last", sa.Float, nullable=False),
    comment="What servers said of themselves: another server behind one address is told from the first by it.",
    sqlite_with_rowid=False,
)
