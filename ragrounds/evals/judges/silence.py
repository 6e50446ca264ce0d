"""Judges whose replies hold no verdict: what they were asked for and what they said instead, and when to ask no more.

A judge that does not keep to the form costs as much as one that does. So one of whose first replies none can be read is
given up, long before every answer was put to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct

from ragrounds.contracts import Entry, Journal
from ragrounds.evals.judges.verdict import FAILED, REFUSED, Judgement
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.records import Reply, Verdict

T = TypeVar("T", bound=Struct)
FIRST = 20
"""Replies after which a judge is given up, where none of them could be read."""
NOT_ASKED = "not asked any more"
_APART = (FAILED, REFUSED, NOT_ASKED)
"""Reasons of verdicts that are missing though no reply was unreadable."""


class UnreadableReply(Struct, frozen=True, kw_only=True):
    """The first reply of a judge that holds no verdict."""

    judge: str
    asked: str
    """The form of the verdict that was asked for, as it stands in the prompt."""
    text: str
    """What it said, from outside: to be shown as text."""


@dataclass(eq=False)
class _Heard:
    """What was heard of one judge."""

    spoke: bool = False
    unreadable: int = 0
    first: UnreadableReply | None = None


class HeardJournal:
    """A journal that keeps the text of the last reply (contract: :class:`ragrounds.contracts.Journal`)."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.text = ""

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The response of the journal."""
        response, cached = await self._journal.once(entry, make, kind)
        self.text = response.text if isinstance(response, Reply) else self.text
        return response, cached


class Silence:
    """Hears what judges reply, each by itself.

    Args:
        patient: no judge is ever given up.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._heard: dict[str, _Heard] = {}

    def hear(self, judge: str, form: VerdictForm, made: Judgement, text: str) -> None:
        """Note what came of asking a judge, and what it said last."""
        heard = self._heard.setdefault(judge, _Heard())
        heard.spoke = heard.spoke or bool(made.values)
        replies = [call for call in made.calls if not call.error]
        if replies and any(unreadable(reason) for reason in made.reasons.values()):
            heard.unreadable += len(replies)
            heard.first = heard.first or UnreadableReply(judge=judge, asked=form.example, text=text)

    def given_up(self, judge: str) -> bool:
        """Whether none of a judge's first `FIRST` replies could be read."""
        heard = self._heard.get(judge)
        return heard is not None and not self._patient and not heard.spoke and heard.unreadable >= FIRST

    def reached(self) -> str:
        """Say who was given up, and why; empty: nobody."""
        for judge, heard in self._heard.items():
            if self.given_up(judge):
                return f"none of the first {heard.unreadable:,} replies of {judge} holds a verdict that can be read"
        return ""

    def first(self) -> tuple[UnreadableReply, ...]:
        """Of every judge what it said first that could not be read."""
        return tuple(heard.first for heard in self._heard.values() if heard.first is not None)


def unreadable(reason: str) -> bool:
    """Whether this is why a reply could not be read; not: no reply came, a filter refused, nothing was asked."""
    return bool(reason) and reason not in _APART


def none_readable(verdicts: Iterable[Verdict]) -> str:
    """Why none of these verdicts could be read; empty: one could, or no reply was unreadable."""
    given = list(verdicts)
    reasons = (verdict.reason for verdict in given if unreadable(verdict.reason))
    return "" if any(verdict.outcome for verdict in given) else next(reasons, "")
