"""Scorers by name, scorers of a question, and the headline of a benchmark.

Scorers are discovered by scanning: every :class:`ScorerRecord` at the top level of a module of this folder is a scorer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ragrounds.base import hooks
from ragrounds.base.digests import code_digest, home_of
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.plugins import ExtensionPoint, is_import_path, warn_once
from ragrounds.base.records import Attempt, Gold, Kind, Question, Score, blank
from ragrounds.evals.benchmarks.cards import Card, card_of
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord, StoredScorer
from ragrounds.evals.scorers.judged import JudgedScorer
from ragrounds.recorder.errors import failure

NO_UNIT = "unit not known"


def _missing_requirement(record: ScorerRecord) -> str:
    try:
        convert({name: getattr(record, name) for name in ScorerRecord.__struct_fields__}, ScorerRecord)
    except ValidationError as problem:
        return f"{problem}."
    if record.needs:
        return f"the scorer {record.name!r} needs {record.needs}; only scorers that need nothing can be added."
    return "" if record.computes else f"the scorer {record.name!r} has no method score(attempt, question, gold)."


SCORERS: ExtensionPoint[ScorerRecord] = ExtensionPoint(hooks.SCORER, ScorerRecord, _missing_requirement)
"""Scorers that ship with the package, that installed packages add, and that users name by import path."""


@cache
def all_scorers() -> Mapping[str, ScorerRecord]:
    """Return every scorer by its name, of this folder and of installed packages.

    Scorers that need a judge, an embedder or a file are included.
    """
    return MappingProxyType(SCORERS.all())


_NAMED: dict[str, ScorerRecord] = {}
"""Name → scorer that the user named by import path in this process, so that tables can show its wording."""
_PATHS: dict[str, str] = {}
"""Import path → name of these scorers."""


def scorer_name(text: str) -> str:
    """Return the name under which a scorer's scores are stored.

    For an import path it is the name of the imported object, whose wording is known from then on.

    Raises:
        UserError: the import path does not lead to a scorer.
    """
    if not is_import_path(text):
        return text
    record = SCORERS.imported(text)
    _NAMED[record.name], _PATHS[text] = record, record.name
    return record.name


def ready_scorers() -> dict[str, ScorerRecord]:
    """Return the scorers by name that compute and need nothing except the attempt and its gold."""
    return {name: record for name, record in all_scorers().items() if not record.needs}


def tell(scorer: ScorerRecord) -> None:
    """Register the wording of a scorer that is not installed, as kept in a store."""
    _TOLD[scorer.name] = scorer


_TOLD: dict[str, ScorerRecord] = {}


def typed_scorer(text: str) -> str:
    """Return the name for an import path that was used before, as :func:`scorer_name`; any other text unchanged.

    Nothing is imported.
    """
    return _PATHS.get(text, text)


def find_scorer(text: str) -> ScorerRecord:
    """Return the scorer that the user names, by its name or an import path (``package.module:NAME``), to score with.

    Raises:
        UserError: there is no such scorer (the nearest name is given), or it needs a judge, an embedder or a file (the
            command is given).
    """
    return known_scorer(scorer_name(text))


def known_scorer(name: str) -> ScorerRecord:
    """Return the scorer with a name that is in a store, to score with. Nothing is imported for it.

    Raises:
        UserError: as :func:`find_scorer`.
    """
    record = _NAMED.get(name) or SCORERS.find(name)
    if record is None:
        raise unknown("scorer", name, ready_scorers(), SCORERS.hook.listing)
    if record.needs:
        raise UserError(f"The scorer {name!r} needs {record.needs}: `{record.command(['RUN'])}`.")
    return record


def described(name: str) -> ScorerRecord:
    """Return the description of the scorer that scores are stored under, with or without parameters in brackets.

    For a scorer that is not installed (another version's, a package's) this is the wording in the store. Without such
    wording even its unit is unknown.
    """
    base_name = name.partition("[")[0]
    record = all_scorers().get(base_name) or _NAMED.get(base_name) or _TOLD.get(name)
    if isinstance(record, JudgedScorer) and record.judging == base_name != name:  # by a user's rubric
        return replace(record, name=name, judging=name)
    return record or StoredScorer(name=name, summary="score", method=name, kinds=("choice",), unit=NO_UNIT)


def figure_word(name: str) -> str:
    """Return the name of a scorer's figure: ``accuracy`` if 1 is a right answer, otherwise the scorer's name."""
    return "accuracy" if described(name).accuracy else name


def scorers_for(question: Question) -> tuple[ScorerRecord, ...]:
    """Return the scorers of this question when none is requested: the headline first, then in the card's order."""
    scorers = list[ScorerRecord]()
    for scorer in _candidates(card_of(question.benchmark), question.kind):
        if scores_by_default(scorer, question):
            scorers.append(scorer)
    return tuple(scorers)


@cache
def _candidates(card: Card | None, kind: Kind) -> tuple[ScorerRecord, ...]:
    """Return the scorers that questions of a card and kind may have, in their order.

    The result is cached, so that it is not computed for every question.
    """
    card_scorers, order = card.scorers if card else (), _order(card, kind)
    candidates = [
        scorer
        for scorer in all_scorers().values()
        if not (scorer.by_card and card_scorers and scorer.name not in card_scorers)
        # A scorer from outside may decide by itself what it scores.
        and (not is_shipped(scorer.name) or (kind in scorer.kinds and not scorer.needs and not scorer.on_request))
    ]
    return tuple(sorted(candidates, key=lambda scorer: _sort_key(scorer.name, order)))


_SCORERS_PACKAGE = "ragrounds.evals.scorers"
_codes: dict[int, tuple[ScorerRecord, str]] = {}


def scorer_code(scorer: ScorerRecord) -> str:
    """Return the digest of a scorer's code: of its module and of its imports from this package and its own package."""
    cached = _codes.get(id(scorer))
    if cached is None:
        cached = _codes[id(scorer)] = scorer, code_digest(home_of(scorer), within=(_SCORERS_PACKAGE,))
    return cached[1]


def score_by(scorer: ScorerRecord, attempt: Attempt, question: Question, gold: Gold) -> Score:
    """Return a scorer's score of an attempt, with the digest of the code that made it.

    If a scorer from outside fails, its score is missing with a reason, so that a paid answer is not lost.
    """
    if is_shipped(scorer.name):
        return replace(scorer.score(attempt, question, gold), code=scorer_code(scorer))
    try:
        score: object = scorer.score(attempt, question, gold)
        if not isinstance(score, Score):
            raise TypeError(f"score() gave {type(score).__name__}, expected a Score")
        value = None if score.value is None else float(score.value)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"score() gave the value {score.value}")
    except Exception as problem:
        reason = failure(problem)[:300]
        warn_once(f"The scorer {scorer.name!r} failed on an answer, whose score is missing: {reason}")
        reading = AnswerRead("answered" if not blank(attempt.text) else "empty")
        score, value = ScorerRecord.scored(scorer, attempt, None, reading, reason=f"the scorer failed: {reason}"), None
    score_key = {"question_id": attempt.question_id, "epoch": attempt.epoch, "scorer": scorer.name}
    return replace(score, **score_key, value=value, code=scorer_code(scorer))


def usual_scores(attempt: Attempt, question: Question, gold: Gold) -> list[Score]:
    """Return the scores of an attempt by the default scorers of its question."""
    return [score_by(scorer, attempt, question, gold) for scorer in scorers_for(question)]


@cache  # it is asked of every scorer for every question
def is_shipped(name: str) -> bool:
    """Return True if the scorer of this name, with or without parameters in brackets, ships with ragrounds."""
    return name.partition("[")[0] in SCORERS.shipped()


def scores_by_default(scorer: ScorerRecord, question: Question) -> bool:
    """Return True if a scorer scores a question when none is requested. A scorer from outside that fails does not."""
    if is_shipped(scorer.name):
        return scorer.default(question)
    try:
        return bool(scorer.default(question))
    except Exception as problem:
        warn_once(f"The scorer {scorer.name!r} was left out: `default` failed: {failure(problem)}")
        return False


def questions_of(scorer: ScorerRecord, questions: Sequence[Question]) -> list[Question]:
    """Return the questions that a scorer scores by default. A scorer that is only used on request has none; for it,
    return those of its kinds.
    """
    by_default = [question for question in questions if scores_by_default(scorer, question)]
    return by_default or [question for question in questions if scorer.suits(question)]


class Headline(Struct, frozen=True, kw_only=True):
    """Questions of one kind under one scorer, the same for all systems: the content of one table."""

    kind: Kind
    scorer: str
    columns: tuple[str, ...]
    """Scorers shown next to the headline."""


def headline_of(
    questions: Iterable[Question], present: Collection[str] | None = None, card: Card | None = None
) -> tuple[Headline, ...]:
    """Return the headline and its columns for each kind of question, in order of appearance.

    Args:
        questions: questions of one benchmark.
        present: names of scorers that all systems have scores under; by default the default scorers of the questions.
            A kind of question without any of them has no headline.
        card: card of the benchmark; by default the package's card of the questions' dataset, or of its family.
    """
    first_of_kind: dict[Kind, Question] = {}
    for question in questions:
        first_of_kind.setdefault(question.kind, question)
    headlines = []
    for kind, question in first_of_kind.items():
        order = _order(card or card_of(question.benchmark), kind)
        scorer_names = [scorer.name for scorer in scorers_for(question)] if present is None else list(present)
        ordered = sorted(
            (name for name in scorer_names if kind in described(name).kinds), key=lambda name: _sort_key(name, order)
        )
        if ordered:
            columns = tuple(name for name in ordered[1:] if name in order or described(name).beside)
            headlines.append(Headline(kind=kind, scorer=ordered[0], columns=columns))
    return tuple(headlines)


def _order(card: Card | None, kind: Kind) -> tuple[str, ...]:
    """Return the names on the card, the headline first; without any, the usual headline of such questions."""
    if card and card.headline:
        return *card.headline, *card.columns
    return tuple(record.name for record in all_scorers().values() if record.usual and kind in record.kinds)


def _sort_key(name: str, order: tuple[str, ...]) -> tuple[int, bool, str]:
    """Return a sort key: the card's order, then scorers that may be shown next to a headline, then the others."""
    rank = order.index(name) if name in order else len(order)
    return rank, not described(name).beside, name
