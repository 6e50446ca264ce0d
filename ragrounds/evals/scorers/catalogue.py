"""The scorers by name, those that score a question, and the headline of a benchmark.

Scorers are found by scanning: every :class:`ScorerRecord` at the top level of a module of this folder is a scorer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ragrounds.base import hooks
from ragrounds.base.digests import code_digest, home_of
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.plugins import ExtensionPoint, is_import_path, say_once
from ragrounds.base.records import Attempt, Gold, Kind, Question, Score, blank
from ragrounds.evals.benchmarks.cards import Card, card_of
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord, StoredScorer
from ragrounds.evals.scorers.judged import JudgedScorer
from ragrounds.recorder.errors import failure

NO_UNIT = "unit not known"


def _lacks(made: ScorerRecord) -> str:
    try:
        convert({name: getattr(made, name) for name in ScorerRecord.__struct_fields__}, ScorerRecord)
    except ValidationError as problem:
        return f"{problem}."
    if made.needs:
        return f"the scorer {made.name!r} needs {made.needs}; only scorers that need nothing can be added."
    return "" if made.computes else f"the scorer {made.name!r} has no method score(attempt, question, gold)."


SCORERS: ExtensionPoint[ScorerRecord] = ExtensionPoint(hooks.SCORER, ScorerRecord, _lacks)
"""What ships, what installed packages add, and what users name by import path."""


@cache
def all_scorers() -> Mapping[str, ScorerRecord]:
    """Every scorer by its name, of this folder and of installed packages; those that need a judge, an embedder or a
    file too."""
    return MappingProxyType(SCORERS.all())


_NAMED: dict[str, ScorerRecord] = {}
"""Scorers that the user has named by import path in this process, by their own names: tables show their words."""
_PATHS: dict[str, str] = {}
"""Import path → name, of these."""


def scorer_name(text: str) -> str:
    """The name under which scores are stored, of a scorer that the user names: itself, or that of the object at an
    import path, whose words are known from then on.

    Raises:
        UserError: the import path gives no scorer.
    """
    if not is_import_path(text):
        return text
    made = SCORERS.imported(text)
    _NAMED[made.name], _PATHS[text] = made, made.name
    return made.name


def ready_scorers() -> dict[str, ScorerRecord]:
    """The scorers by name that compute and need nothing beside the attempt and its gold."""
    return {name: made for name, made in all_scorers().items() if not made.needs}


def tell(scorer: ScorerRecord) -> None:
    """Make the words of a scorer known that is not here: those that a store keeps."""
    _TOLD[scorer.name] = scorer


_TOLD: dict[str, ScorerRecord] = {}


def typed_scorer(text: str) -> str:
    """As :func:`scorer_name` of a text that was read before; any other is given back. Nothing is imported."""
    return _PATHS.get(text, text)


def find_scorer(text: str) -> ScorerRecord:
    """The scorer that the user names, by its name or an import path (``package.module:NAME``), to score with.

    Raises:
        UserError: no such scorer, with the nearest; one that needs a judge, an embedder or a file, with the command.
    """
    return known_scorer(scorer_name(text))


def known_scorer(name: str) -> ScorerRecord:
    """The scorer of a name that stands in a store, to score with: nothing is imported for it.

    Raises:
        UserError: as :func:`find_scorer`.
    """
    made = _NAMED.get(name) or SCORERS.find(name)
    if made is None:
        raise unknown("scorer", name, ready_scorers(), SCORERS.hook.listing)
    if made.needs:
        raise UserError(f"The scorer {name!r} needs {made.needs}: `{made.command(['RUN'])}`.")
    return made


def described(name: str) -> ScorerRecord:
    """What is known of the scorer that scores are stored under, with or without parameters in brackets. Of a scorer
    that is not here (another version's, a package's) the words are known that the store keeps; without them nothing
    is, not even its unit."""
    known = name.partition("[")[0]
    made = all_scorers().get(known) or _NAMED.get(known) or _TOLD.get(name)
    if isinstance(made, JudgedScorer) and made.judging == known != name:  # by a rubric of the user's own
        return replace(made, name=name, judging=name)
    return made or StoredScorer(name=name, summary="score", method=name, kinds=("choice",), unit=NO_UNIT)


def figure_word(name: str) -> str:
    """What the figure of a scorer is called: ``accuracy`` where 1 is a right answer, else by the scorer's own name."""
    return "accuracy" if described(name).accuracy else name


def scorers_for(question: Question) -> tuple[ScorerRecord, ...]:
    """The scorers of this question wherever nothing else is asked for: the headline first, then by the card's order."""
    return tuple(
        one for one in _candidates(card_of(question.benchmark), question.kind) if scores_by_default(one, question)
    )


@cache
def _candidates(card: Card | None, kind: Kind) -> tuple[ScorerRecord, ...]:
    """The scorers that questions of a card and kind may have, in their order: found once, not for every question."""
    named, order = card.scorers if card else (), _order(card, kind)
    made = [
        one
        for one in all_scorers().values()
        if not (one.by_card and named and one.name not in named)
        # One from outside may have its own mind on what it scores.
        and (not _ships(one) or (kind in one.kinds and not one.needs and not one.on_request))
    ]
    return tuple(sorted(made, key=lambda one: _place(one.name, order)))


_ROOM = "ragrounds.evals.scorers"
_codes: dict[int, tuple[ScorerRecord, str]] = {}


def scorer_code(scorer: ScorerRecord) -> str:
    """The digest of a scorer's code: of its module, and of what that imports from this room and its own package."""
    known = _codes.get(id(scorer))
    if known is None:
        known = _codes[id(scorer)] = scorer, code_digest(home_of(scorer), within=(_ROOM,))
    return known[1]


def score_by(scorer: ScorerRecord, attempt: Attempt, question: Question, gold: Gold) -> Score:
    """A scorer's score of an attempt, with the digest of the code that made it. Where a scorer from outside fails, its
    score is missing and says why: an answer that was paid for is not lost by it."""
    if _ships(scorer):
        return replace(scorer.score(attempt, question, gold), code=scorer_code(scorer))
    try:
        made: object = scorer.score(attempt, question, gold)
        if not isinstance(made, Score):
            raise TypeError(f"score() gave {type(made).__name__}, expected a Score")
        value = None if made.value is None else float(made.value)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"score() gave the value {made.value}")
    except Exception as problem:
        why = failure(problem)[:300]
        say_once(f"The scorer {scorer.name!r} failed on an answer, whose score is missing: {why}")
        read = AnswerRead("answered" if not blank(attempt.text) else "empty")
        made, value = ScorerRecord.scored(scorer, attempt, None, read, reason=f"the scorer failed: {why}"), None
    place = {"question_id": attempt.question_id, "epoch": attempt.epoch, "scorer": scorer.name}
    return replace(made, **place, value=value, code=scorer_code(scorer))


def usual_scores(attempt: Attempt, question: Question, gold: Gold) -> list[Score]:
    """The scores of an attempt by the scorers of its question."""
    return [score_by(scorer, attempt, question, gold) for scorer in scorers_for(question)]


@cache
def _shipped_names() -> frozenset[str]:
    return frozenset(SCORERS.shipped())


def _ships(scorer: ScorerRecord) -> bool:
    return scorer.name.partition("[")[0] in _shipped_names()


def scores_by_default(scorer: ScorerRecord, question: Question) -> bool:
    """Whether a scorer scores a question wherever nothing else is asked for; one from outside that fails does not."""
    if _ships(scorer):
        return scorer.default(question)
    try:
        return bool(scorer.default(question))
    except Exception as problem:
        say_once(f"The scorer {scorer.name!r} was left out: `default` failed: {failure(problem)}")
        return False


class Headline(Struct, frozen=True, kw_only=True):
    """What one table is made of: the questions of one kind under one scorer, the same for all systems."""

    kind: Kind
    scorer: str
    columns: tuple[str, ...]
    """Scorers that stand beside the headline."""


def headline_of(
    questions: Iterable[Question], present: Collection[str] | None = None, card: Card | None = None
) -> tuple[Headline, ...]:
    """The headline and its columns for each kind of question, in order of appearance.

    Args:
        questions: of one benchmark.
        present: names of scorers that all systems have scores under; by default those that score the questions anyway.
            A kind of question without any of them has no headline.
        card: the benchmark's; by default the package's card of the questions' dataset, or of its family.
    """
    first: dict[Kind, Question] = {}
    for question in questions:
        first.setdefault(question.kind, question)
    headlines = []
    for kind, question in first.items():
        order = _order(card or card_of(question.benchmark), kind)
        known = [one.name for one in scorers_for(question)] if present is None else list(present)
        here = sorted((name for name in known if kind in described(name).kinds), key=lambda name: _place(name, order))
        if here:
            columns = tuple(name for name in here[1:] if name in order or described(name).beside)
            headlines.append(Headline(kind=kind, scorer=here[0], columns=columns))
    return tuple(headlines)


def _order(card: Card | None, kind: Kind) -> tuple[str, ...]:
    """The names that the card gives, the headline first; without any, the usual headline of such questions."""
    if card and card.headline:
        return *card.headline, *card.columns
    return tuple(made.name for made in all_scorers().values() if made.usual and kind in made.kinds)


def _place(name: str, order: tuple[str, ...]) -> tuple[int, bool, str]:
    """By the card's order, then those that may stand beside a headline, then the others."""
    place = order.index(name) if name in order else len(order)
    return place, not described(name).beside, name
