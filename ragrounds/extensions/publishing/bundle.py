"""A bundle: what the figures of a ranking rest on, in one file that a stranger can derive them from again.

The file holds JSON, a record a line. The first line is an in-toto statement whose predicate is an ``eval-result``
(in-toto/attestation, pull request 575); of the records that follow it holds the digest, the root of their Merkle tree
(RFC 6962) and every figure. Then come the runs, the questions, what judges replied, and the attempts with their scores
and calls. The last line is the digest of all lines before it. Texts that nobody may give on are digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Called, Gold, Question, Reply, Run, Score
from ragrounds.base.redaction import Redactor
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import decompress
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.published_traces import question_digest
from ragrounds.models.prices import Price
from ragrounds.version import __version__

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/eval-result/v0.1"
SUFFIX = ".bundle.jsonl"
_EVALUATOR = "https://pypi.org/project/ragrounds/"
_LONGEST = 64 << 20
"""Bytes of a line, beyond which a file is not believed."""
_MOST = 10_000_000
"""Attempts of a run, beyond which a file is not believed."""


class RunLine(Struct, frozen=True, kw_only=True, tag="run", tag_field="record"):
    """A run. The folder that it was started in is left out."""

    run: Run
    name: str = ""
    """What it is called."""
    stops: tuple[tuple[str, str, bytes], ...] = ()
    """Claims that it was followed for: the claim, the seed, and how it stood."""


class QuestionLine(Struct, frozen=True, kw_only=True, tag="question", tag_field="record"):
    """A question; without its texts and its gold where nobody may give them on. Then its id is a part of the digest."""

    question: Question
    gold: Gold | None = None
    """``None``: the texts are withheld."""
    digest: str
    """Of the question: :func:`ragrounds.extensions.publishing.published_traces.question_digest`."""
    gold_digest: str


class JudgeLine(Struct, frozen=True, kw_only=True, tag="judge", tag_field="record"):
    """A judge's call about an answer of a run, with its reply."""

    run: str
    call: Call
    reply: Reply | None = None
    again: bool = False
    """It was paid for once more (``--journal fresh``)."""


class AttemptLine(Struct, frozen=True, kw_only=True, tag="attempt", tag_field="record"):
    """An attempt with its scores; of its events the calls alone, without what they were asked."""

    attempt: Attempt
    scores: tuple[Score, ...] = ()


Line = RunLine | QuestionLine | JudgeLine | AttemptLine


class EvalClaim(Struct, frozen=True):
    """A figure as the predicate has it: the observed value is the threshold."""

    metric: str
    comparator: str
    threshold: str
    passed: bool = True


class Basis(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the predicate has no field for."""

    merkle_root: str
    records: int
    seed: int
    prices: dict[str, Price] = {}
    """``provider:model`` → the publisher's own price."""
    price_list: str = ""
    """The version of genai-prices, whose list says the others."""
    scorers: dict[str, tuple[str, ...]] = {}
    """Scorer → the digests of the code that made the scores: with prompts and parser, where a judge did."""
    figures: dict[str, Any] = {}
    """Every figure of the comparison by its place."""
    printed: dict[str, str] = {}
    """The same as text, with the digits that tables show."""


class Predicate(Struct, frozen=True, kw_only=True, rename="camel"):
    """An ``eval-result``."""

    evaluator: dict[str, str] = field(default_factory=lambda: {"id": _EVALUATOR})
    evaluated_at: str
    """When the last attempt began."""
    suite: dict[str, str]
    claims: tuple[EvalClaim, ...]
    sample_size: int
    model: dict[str, Any]
    """The runs, by the digest of their fingerprints."""
    dataset: dict[str, Any]
    """The questions, by the hash of their content."""
    assurance_level: str = "self_attested"
    subject_profile: str = "receipt"
    harness: dict[str, str] = field(default_factory=lambda: {"name": "ragrounds", "version": __version__})
    ragrounds: Basis


class Statement(Struct, frozen=True, kw_only=True):
    """The first line."""

    type: str = field(default=STATEMENT, name="_type")
    subject: tuple[dict[str, Any], ...]
    predicate_type: str = field(default=PREDICATE, name="predicateType")
    predicate: Predicate


class Seal(Struct, frozen=True):
    """Digests of a bundle's records."""

    records: int
    sha256: str
    root: str


def seal_of(lines: Iterable[bytes]) -> Seal:
    """The digests of some lines, each with the sign that ends it."""
    whole, leaves = hashlib.sha256(), list[bytes]()
    for line in lines:
        whole.update(line)
        leaves.append(hashlib.sha256(b"\0" + line).digest())
    return Seal(len(leaves), whole.hexdigest(), merkle_root(leaves).hex())


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over these hashes of leaves (RFC 6962, section 2.1)."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:  # pairs from the left; one that is left over goes up as it is
        pairs = [hashlib.sha256(b"\1" + one + two).digest() for one, two in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def records_of(store: Store, runs: Sequence[Run], names: Mapping[str, str], free: Collection[str]) -> Iterator[bytes]:
    """The records of runs on the same questions as lines, with keys redacted. Replies stand there in full.

    Args:
        store: where they are.
        runs: in the order of their table.
        names: run id → what it is called.
        free: the datasets whose texts are shown.
    """
    hide = Redactor()
    for record in _records(store, runs, names, free):
        yield hide(msgspec.json.encode(record).decode()).encode() + b"\n"


def _records(store: Store, runs: Sequence[Run], names: Mapping[str, str], free: Collection[str]) -> Iterator[Line]:
    stopped = schema.stoppings
    for run in runs:
        wanted = sa.select(stopped).where(stopped.c.run == store.number(run))
        with store.engine.connect() as connection:
            stops = [(one.claim, one.seed, decompress(one.body)) for one in connection.execute(wanted)]
        yield RunLine(run=replace(run, asked=None), name=names.get(run.id, ""), stops=tuple(stops))
    questions, golds = store.questions(runs[0])
    lines = {one.id: _question(one, golds[one.id], free) for one in questions}
    yield from lines.values()
    for run in runs:
        for table in (schema.gradings, schema.regradings):
            with store.engine.connect() as connection:
                bodies = [
                    one.body for one in connection.execute(sa.select(table).where(table.c.run == store.number(run)))
                ]
            for body in bodies:
                call = msgspec.msgpack.decode(decompress(body), type=Call)
                found = store.call(call.key, Request, Reply) if call.kind == "model" else None
                yield JudgeLine(
                    run=run.id, call=_bare(call), reply=found and found[1], again=table is schema.regradings
                )
    for run in runs:
        scores: dict[tuple[str, int], list[Score]] = {}
        for score in store.scores(run):
            scores.setdefault((score.question_id, score.epoch), []).append(score)
        for attempt in store.attempts(run):
            line, key = lines[attempt.question_id], (attempt.question_id, attempt.epoch)
            id, shown = line.question.id, line.gold is not None
            calls = (replace(one, step=0, call=_bare(one.call)) for one in attempt.events if isinstance(one, Called))
            yield AttemptLine(
                attempt=replace(attempt, question_id=id, events=tuple(calls), reason=attempt.reason if shown else ""),
                scores=tuple(
                    replace(one, question_id=id, reason=one.reason if shown else "") for one in scores.get(key, ())
                ),
            )


def _bare(call: Call) -> Call:
    """A call without what servers said, and without what it found."""
    return replace(call, passages=(), faults=(), error="failed" if call.error else "")


def _question(question: Question, gold: Gold, free: Collection[str]) -> QuestionLine:
    digest = question_digest(question)
    line = QuestionLine(question=question, gold=gold, digest=digest, gold_digest=gold_digest(gold))
    if question.benchmark in free:
        return line
    bare = replace(question, id=digest[:32], text=f"SHA-256 {digest}", options={}, metadata={})
    return replace(line, question=replace(bare, cluster=hidden_cluster(question, True)), gold=None)


def hidden_cluster(question: Question, hidden: bool) -> str:
    """The name of a question's cluster, which may hold a question's id; `hidden`: as a digest."""
    known = question.cluster
    return hashlib.sha256(known.encode()).hexdigest()[:32] if known and hidden else known


def gold_digest(gold: Gold) -> str:
    """The digest of what is right for a question."""
    return hashlib.sha256(msgspec.json.encode(gold)).hexdigest()


def flat(value: Any) -> dict[str, Any]:
    """Every value within another by its place: ``tables.robust.lines.RUN.overall.value``."""
    found: dict[str, Any] = {}
    # By way of JSON, which has no number that is none.
    _flatten(msgspec.json.decode(msgspec.json.encode(value)), "", found)
    return found


def _flatten(value: Any, path: str, into: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(item, f"{path}.{key}" if path else key, into)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            named = item if isinstance(item, dict) else {}
            name = "/".join(str(named[key]) for key in ("scorer", "run", "first", "second", "metric") if key in named)
            _flatten(item, f"{path}.{name or place}", into)
    else:
        into[path] = value


def statement_of(runs: Sequence[Run], comparison: Comparison, last: float, seal: Seal, basis: Basis) -> Statement:
    """The statement on a comparison of these runs; `last`: when the last attempt began."""
    claims = [
        EvalClaim(f"{table.scorer} of {line.run}", sign, repr(line.overall.value))
        for table, _ in comparison.shown()
        for sign in (">=" if table.direction == "higher" else "<=",)
        for line in table.lines
        if line.overall.value is not None
    ]
    prints = hashlib.sha256("\n".join(run.fingerprint for run in runs).encode()).hexdigest()
    return Statement(
        subject=({"name": "records", "digest": {"sha256": seal.sha256}},),
        predicate=Predicate(
            evaluated_at=datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            suite={"name": runs[0].benchmark, "version": runs[0].questions},
            claims=tuple(claims),
            sample_size=sum(row.made for row in comparison.rows),
            model={"name": ", ".join(run.id for run in runs), "digest": {"sha256": prints}},
            dataset={"name": runs[0].benchmark, "digest": {"sha256": runs[0].questions}},
            ragrounds=replace(
                basis,
                merkle_root=seal.root,
                records=seal.records,
                figures=flat({"rows": comparison.rows, "tables": comparison.tables}),
            ),
        ),
    )


def write_bundle(path: Path, statement: Statement, records: Path) -> None:
    """Write a statement, its records (a file of lines), and the digest of both."""
    head = msgspec.json.encode(statement, order="deterministic") + b"\n"
    whole = hashlib.sha256(head)
    with path.open("wb") as file, records.open("rb") as lines:
        file.write(head)
        for line in lines:
            file.write(line)
            whole.update(line)
        file.write(_last(whole.hexdigest()))


def _last(digest: str) -> bytes:
    return b'{"sha256":"%s"}\n' % digest.encode()


class Bundle(Struct, frozen=True, kw_only=True):
    """A bundle of unknown origin, read once: its statement, and the digests of what it holds now."""

    path: Path
    statement: Statement
    seal: Seal
    whole: bool
    """Whether its last line is the digest of all lines before it."""

    def records(self) -> Iterator[tuple[int, Line]]:
        """The records, each with the number of its line.

        Raises:
            UserError: a line is no record.
        """
        decoder = msgspec.json.Decoder(Line)
        for number, line in enumerate(_middle(self.path), 2):
            try:
                yield number, decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise UserError(f"{self.path}, line {number}: no record of a bundle ({error}).") from error


def read_bundle(path: Path) -> Bundle:
    """Read a bundle's statement, and digest the rest.

    Raises:
        UserError: no file, or no bundle.
    """
    try:
        with path.open("rb") as file:
            head = file.readline(_LONGEST)
        whole, last = hashlib.sha256(head), [b""]

        def lines() -> Iterator[bytes]:
            for line in _middle(path, last):
                whole.update(line)
                yield line

        seal = seal_of(lines())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    try:
        statement = msgspec.json.decode(head, type=Statement)
        exact = head == msgspec.json.encode(statement, order="deterministic") + b"\n"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is no bundle of `ragrounds publish --bundle`: its first line is no statement ({error})."
        ) from error
    if (statement.type, statement.predicate_type) != (STATEMENT, PREDICATE):
        raise UserError(f"{path} holds a statement of another kind: {statement.predicate_type[:200]!r}.")
    return Bundle(path=path, statement=statement, seal=seal, whole=exact and last[0] == _last(whole.hexdigest()))


def _middle(path: Path, last: list[bytes] | None = None) -> Iterator[bytes]:
    """The lines of a file but the first and the last, which is put into `last`."""
    with path.open("rb") as file:
        file.readline(_LONGEST)
        held = file.readline(_LONGEST)
        while line := file.readline(_LONGEST):
            yield held
            held = line
    if last is not None:
        last[0] = held


def check_runs(runs: Sequence[Run], questions: Sequence[QuestionLine]) -> None:
    """Check that the runs of a bundle are of its questions.

    Raises:
        UserError: they are not, or cannot be.
    """
    ids = [one.question.id for one in questions]
    texts = [*ids, *(text for run in runs for text in (run.id, run.agent, run.benchmark))]
    if not runs or len({run.id for run in runs}) < len(runs) or len(set(ids)) < len(ids):
        raise UserError("The bundle has no run, or a run or a question twice.")
    if not all(text.isprintable() and len(text) < 10_000 for text in texts):
        raise UserError("The bundle holds a name with control characters.")
    for run in runs:
        if run.count != len(ids) or not 1 <= run.epochs <= _MOST // max(1, run.count):
            raise UserError(f"The run {run.id} has {run.count:,} questions, and {len(ids):,} are in the bundle.")
        if run.questions != runs[0].questions:
            raise UserError(f"The run {run.id} is of other questions than {runs[0].id}.")
