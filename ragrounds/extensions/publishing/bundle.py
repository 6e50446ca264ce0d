"""Bundle: one file with all records of a ranking, from which anyone can derive its figures again.

The file holds JSON, a record a line. The first line is an in-toto statement whose predicate is an ``eval-result``
(in-toto/attestation, pull request 575); it has the digest of the records that follow, the root of their Merkle tree
(RFC 6962) and every figure. Then come the runs, the questions, what judges replied, and the attempts with their scores
and calls. The last line is the digest of all lines before it. Texts that may not be published are digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, AttemptKey, Call, Called, Gold, Question, Reply, Run, Score
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import decompress
from ragrounds.evals.store.database import fetch_rows
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.leaderboard import Ranking
from ragrounds.extensions.publishing.published_traces import question_digest
from ragrounds.models.prices import Price
from ragrounds.recorder.redaction import Redactor
from ragrounds.version import __version__

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/eval-result/v0.1"
SUFFIX = ".bundle.jsonl"
_EVALUATOR = "https://pypi.org/project/ragrounds/"
_MAX_LINE_BYTES = 64 << 20
"""Bytes of the longest accepted line of a bundle."""
_MAX_ATTEMPTS = 10_000_000
"""Largest accepted number of attempts of a run."""


class RunLine(Struct, frozen=True, kw_only=True, tag="run", tag_field="record"):
    """Record of a run, without the folder that it was started in."""

    run: Run
    name: str = ""
    """Displayed name of the run."""
    stops: tuple[tuple[str, str, bytes], ...] = ()
    """Claims that the run was followed for: the claim, the seed, and the state of its test."""


class QuestionLine(Struct, frozen=True, kw_only=True, tag="question", tag_field="record"):
    """Record of a question.

    If its texts may not be published, texts and gold are left out, and its id is a part of the digest.
    """

    question: Question
    gold: Gold | None = None
    """Gold of the question; ``None`` if the texts are withheld."""
    digest: str
    """Digest of the question: :func:`ragrounds.extensions.publishing.published_traces.question_digest`."""
    gold_digest: str


class JudgeLine(Struct, frozen=True, kw_only=True, tag="judge", tag_field="record"):
    """Record of a judge's call on an answer of a run, with its reply."""

    run: str
    call: Call
    reply: Reply | None = None
    again: bool = False
    """True if the call was paid for once more (``--journal fresh``)."""


class AttemptLine(Struct, frozen=True, kw_only=True, tag="attempt", tag_field="record"):
    """Record of an attempt with its scores; its events are only the calls, without their prompts."""

    attempt: Attempt
    scores: tuple[Score, ...] = ()


Line = RunLine | QuestionLine | JudgeLine | AttemptLine


class EvalClaim(Struct, frozen=True):
    """Figure in the form of the predicate: the observed value is the threshold."""

    metric: str
    comparator: str
    threshold: str
    passed: bool = True


class Basis(Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that the predicate of in-toto does not have."""

    merkle_root: str
    records: int
    seed: int
    prices: dict[str, Price] = {}
    """Prices set by the publisher, by ``provider:model``."""
    price_list: str = ""
    """Version of genai-prices, whose list has the other prices."""
    scorers: dict[str, tuple[str, ...]] = {}
    """Digests of the code that made the scores, by scorer; with prompts and parser for a judge."""
    figures: dict[str, Any] = {}
    """Every figure of the comparison, by its path."""
    printed: dict[str, str] = {}
    """Every figure as text, with the digits that tables show."""


@cache
def harness() -> dict[str, str]:
    """Return the version of ragrounds and the digest of its files, and the version of numpy, which computes figures."""
    digest, package = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".css", ".js", ".toml")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return {"name": "ragrounds", "version": __version__, "code": digest.hexdigest()[:16], "numpy": version("numpy")}


class Predicate(Struct, frozen=True, kw_only=True, rename="camel"):
    """Predicate of type ``eval-result``."""

    evaluator: dict[str, str] = field(default_factory=lambda: {"id": _EVALUATOR})
    evaluated_at: str
    """Time when the last attempt began."""
    suite: dict[str, str]
    claims: tuple[EvalClaim, ...]
    sample_size: int
    model: dict[str, Any]
    """Runs, by the digest of their fingerprints."""
    dataset: dict[str, Any]
    """Questions, by the hash of their content."""
    assurance_level: str = "self_attested"
    subject_profile: str = "receipt"
    harness: dict[str, str] = field(default_factory=lambda: harness())
    """Version, code and libraries that made the figures and the pages."""
    ragrounds: Basis


class Statement(Struct, frozen=True, kw_only=True):
    """Statement in the first line of a bundle."""

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
    """Compute the digests of some lines, each including its line end."""
    digest, leaves = hashlib.sha256(), list[bytes]()
    for line in lines:
        digest.update(line)
        leaves.append(hashlib.sha256(b"\0" + line).digest())
    return Seal(len(leaves), digest.hexdigest(), merkle_root(leaves).hex())


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the Merkle tree over some leaf hashes (RFC 6962, section 2.1)."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:  # pairs from the left; an unpaired hash goes up unchanged
        pairs = [
            hashlib.sha256(b"\1" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def records_of(store: Store, runs: Sequence[Run], names: Mapping[str, str], free: Collection[str]) -> Iterator[bytes]:
    """Yield the records of runs on the same questions as lines, with keys redacted. Replies are included in full.

    Args:
        store: the store that has the runs.
        runs: in the order of their table.
        names: run id → displayed name.
        free: the datasets whose texts are shown.
    """
    hide = Redactor()
    for record in _records(store, runs, names, free):
        yield hide(msgspec.json.encode(record).decode()).encode() + b"\n"


def _records(store: Store, runs: Sequence[Run], names: Mapping[str, str], free: Collection[str]) -> Iterator[Line]:
    stopped = schema.stoppings
    for run in runs:
        query = sa.select(stopped).where(stopped.c.run == store.number(run))
        stops = [(row.claim, row.seed, decompress(row.body)) for row in fetch_rows(store.engine, query)]
        yield RunLine(run=replace(run, asked=None), name=names.get(run.id, ""), stops=tuple(stops))
    questions, golds = store.questions(runs[0])
    lines = {question.id: _question(question, golds[question.id], free) for question in questions}
    yield from lines.values()
    for run in runs:
        for table in (schema.gradings, schema.regradings):
            rows = fetch_rows(store.engine, sa.select(table.c.body).where(table.c.run == store.number(run)))
            for row in rows:
                call = msgspec.msgpack.decode(decompress(row.body), type=Call)
                recorded = store.call(call.key, Request, Reply) if call.kind == "model" else None
                yield JudgeLine(
                    run=run.id,
                    call=_without_results(call),
                    reply=recorded and recorded[1],
                    again=table is schema.regradings,
                )
    for run in runs:
        scores: dict[AttemptKey, list[Score]] = {}
        for score in store.scores(run):
            scores.setdefault(score.key, []).append(score)
        for attempt in store.attempts(run):
            line, key = lines[attempt.question_id], attempt.key
            id, has_text = line.question.id, line.gold is not None
            calls = (
                replace(event, step=0, call=_without_results(event.call))
                for event in attempt.events
                if isinstance(event, Called)
            )
            yield AttemptLine(
                attempt=replace(
                    attempt, question_id=id, events=tuple(calls), reason=attempt.reason if has_text else ""
                ),
                scores=tuple(
                    replace(score, question_id=id, reason=score.reason if has_text else "")
                    for score in scores.get(key, ())
                ),
            )


def _without_results(call: Call) -> Call:
    """Return a call without servers' messages and without its search results."""
    return replace(call, passages=(), faults=(), error="failed" if call.error else "")


def _question(question: Question, gold: Gold, free: Collection[str]) -> QuestionLine:
    digest = question_digest(question)
    line = QuestionLine(question=question, gold=gold, digest=digest, gold_digest=gold_digest(gold))
    if question.benchmark in free:
        return line
    without_text = replace(question, id=digest[:32], text=f"SHA-256 {digest}", options={}, metadata={})
    return replace(line, question=replace(without_text, cluster=hidden_cluster(question, True)), gold=None)


def hidden_cluster(question: Question, hidden: bool) -> str:
    """Return the name of a question's cluster, which may contain a question's id; `hidden`: as a digest."""
    cluster = question.cluster
    return hashlib.sha256(cluster.encode()).hexdigest()[:32] if cluster and hidden else cluster


def gold_digest(gold: Gold) -> str:
    """Return the digest of a gold answer."""
    return hashlib.sha256(msgspec.json.encode(gold)).hexdigest()


def flat(value: Any) -> dict[str, Any]:
    """Return every nested value by its path: ``tables.robust.lines.RUN.overall.value``."""
    values: dict[str, Any] = {}
    # The values pass through JSON, which has no NaN.
    _flatten(msgspec.json.decode(msgspec.json.encode(value)), "", values)
    return values


def _flatten(value: Any, path: str, into: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(item, f"{path}.{key}" if path else key, into)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            fields = item if isinstance(item, dict) else {}
            # A row is named by what it is about, so that its figures keep their paths if rows are added or sorted.
            name = "/".join(str(fields[key]) for key in ("scorer", "run", "first", "second", "metric") if key in fields)
            _flatten(item, f"{path}.{name or index}", into)
    else:
        into[path] = value


def statement_of(ranking: Ranking, last: float, seal: Seal, basis: Basis) -> Statement:
    """Build the statement on a ranking; `last`: time when the last attempt began."""
    runs, comparison = ranking.runs, ranking.comparison
    claims = [
        EvalClaim(f"{table.scorer} of {line.run}", sign, repr(line.overall.value))
        for table in comparison.headline_tables()
        for sign in (">=" if table.direction == "higher" else "<=",)
        for line in table.lines
        if line.overall.value is not None
    ]
    fingerprints = hashlib.sha256("\n".join(run.fingerprint for run in runs).encode()).hexdigest()
    verdicts = {
        finding.scorer: {
            "kind": finding.kind,
            "best": finding.best.run,
            "ahead of": [conclusion.worse for conclusion in finding.ahead],
            "not separated from": finding.not_separated,
        }
        for finding in ranking.abstract.findings
    }
    return Statement(
        subject=({"name": "records", "digest": {"sha256": seal.sha256}},),
        predicate=Predicate(
            evaluated_at=datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            suite={"name": runs[0].benchmark, "version": runs[0].questions},
            claims=tuple(claims),
            sample_size=sum(row.made for row in comparison.rows),
            model={"name": ", ".join(run.id for run in runs), "digest": {"sha256": fingerprints}},
            dataset={"name": runs[0].benchmark, "digest": {"sha256": runs[0].questions}},
            ragrounds=replace(
                basis,
                merkle_root=seal.root,
                records=seal.records,
                figures=flat({"rows": comparison.rows, "tables": comparison.tables, "findings": verdicts}),
            ),
        ),
    )


def write_bundle(path: Path, statement: Statement, records: Path) -> None:
    """Write a statement, its records (a file of lines), and the digest of both."""
    head = msgspec.json.encode(statement, order="deterministic") + b"\n"
    digest = hashlib.sha256(head)
    with path.open("wb") as file, records.open("rb") as lines:
        file.write(head)
        for line in lines:
            file.write(line)
            digest.update(line)
        file.write(_digest_line(digest.hexdigest()))


def _digest_line(digest: str) -> bytes:
    return b'{"sha256":"%s"}\n' % digest.encode()


class Bundle(Struct, frozen=True, kw_only=True):
    """Bundle of unknown origin, read once: its statement, and the digests of its current records."""

    path: Path
    statement: Statement
    seal: Seal
    is_intact: bool
    """True if the last line is the digest of all lines before it."""

    def records(self) -> Iterator[tuple[int, Line]]:
        """Yield the records, each with the number of its line.

        Raises:
            UserError: a line is no record.
        """
        decoder = msgspec.json.Decoder(Line)
        for number, line in enumerate(_record_lines(self.path), 2):
            try:
                yield number, decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise UserError(f"{self.path}, line {number}: no record of a bundle ({error}).") from error


def read_bundle(path: Path) -> Bundle:
    """Read a bundle's statement, and compute the digests of the rest.

    Raises:
        UserError: no file, or no bundle.
    """
    try:
        with path.open("rb") as file:
            head = file.readline(_MAX_LINE_BYTES)
        digest, last = hashlib.sha256(head), [b""]

        def lines() -> Iterator[bytes]:
            for line in _record_lines(path, last):
                digest.update(line)
                yield line

        seal = seal_of(lines())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    try:
        statement = msgspec.json.decode(head, type=Statement)
        # Without types: a statement of another version has other fields.
        is_canonical = head == msgspec.json.encode(msgspec.json.decode(head)) + b"\n"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is no bundle of `ragrounds publish --bundle`: its first line is no statement ({error})."
        ) from error
    if (statement.type, statement.predicate_type) != (STATEMENT, PREDICATE):
        raise UserError(f"{path} holds a statement of another kind: {statement.predicate_type[:200]!r}.")
    return Bundle(
        path=path,
        statement=statement,
        seal=seal,
        is_intact=is_canonical and last[0] == _digest_line(digest.hexdigest()),
    )


def _record_lines(path: Path, last: list[bytes] | None = None) -> Iterator[bytes]:
    """Yield the lines of a file except the first and the last; the last line is stored in `last`."""
    with path.open("rb") as file:
        file.readline(_MAX_LINE_BYTES)
        previous = file.readline(_MAX_LINE_BYTES)
        while line := file.readline(_MAX_LINE_BYTES):
            yield previous
            previous = line
    if last is not None:
        last[0] = previous


def check_runs(runs: Sequence[Run], questions: Sequence[QuestionLine]) -> None:
    """Check that the runs of a bundle belong to its questions.

    Raises:
        UserError: they do not, or cannot.
    """
    ids = [line.question.id for line in questions]
    texts = [*ids, *(text for run in runs for text in (run.id, run.agent, run.benchmark))]
    if not runs or len({run.id for run in runs}) < len(runs) or len(set(ids)) < len(ids):
        raise UserError("The bundle has no run, or a run or a question twice.")
    if not all(text.isprintable() and len(text) < 10_000 for text in texts):
        raise UserError("The bundle holds a name with control characters.")
    for run in runs:
        if run.count != len(ids) or not 1 <= run.epochs <= _MAX_ATTEMPTS // max(1, run.count):
            raise UserError(f"The run {run.id} has {run.count:,} questions, and {len(ids):,} are in the bundle.")
        if run.questions != runs[0].questions:
            raise UserError(f"The run {run.id} is of other questions than {runs[0].id}.")
