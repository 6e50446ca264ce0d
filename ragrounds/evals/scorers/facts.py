"""Long answers with listed facts: scorer ``facts``.

The value is the share of a question's required facts that the answer contains: a fact is contained where one of its
accepted wordings occurs as whole words, whatever the case, spacing and hyphens. It is a cheap, repeatable figure, not
a judgement: a wording inside a negation counts, and a paraphrase that nobody listed does not. It is never averaged
with the accuracy of multiple choice.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from ragrounds.evals.scorers.choices import no_text
from ragrounds.evals.scorers.long import read_long
from ragrounds.evals.scorers.readings import Read
from ragrounds.records import Attempt, Gold, Question, Score

_HYPHENS = re.compile(r"[-\u2010-\u2015\u2212]")


class Facts(Struct, frozen=True):
    """Scores a long answer by the facts in it, 0.0 to 1.0; no value where the question lists no facts."""

    scorer: str = "facts"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The prediction is ``found/all``; the reason names the facts that are missing, by their first wording."""
        if question.metadata.get("facts") == "statements":
            gold = Gold(question_id=gold.question_id, answer=gold.answer)  # for a judge, not for a search
        found = [contains(attempt.text, wordings) for wordings in gold.facts]
        missing = [wordings[0] for wordings, there in zip(gold.facts, found, strict=True) if not there]
        # An answer without any required fact is still an answer, unless it refuses or abstains.
        read = no_text(attempt) or (Read("answered") if any(found) else read_long(attempt))
        value = sum(found) / len(found) if found and attempt.status != "not_run" else None
        reason = read.reason or (f"missing: {'; '.join(missing)}" if missing else "")
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=self.scorer,
            value=value,
            answer_status=read.answer_status,
            prediction=f"{sum(found)}/{len(found)}" if found else "",
            reason=reason if found else "the question lists no facts as wordings",
        )


def contains(text: str, wordings: tuple[str, ...]) -> bool:
    """Whether one of the wordings occurs in the text as whole words."""
    plain = _folded(text)
    return any(re.search(_whole(_folded(wording)), plain) for wording in wordings if wording.strip())


def _folded(text: str) -> str:
    return " ".join(_HYPHENS.sub(" ", unicodedata.normalize("NFKC", text)).casefold().split())


def _whole(wording: str) -> str:
    """The wording with word boundaries where its edges are letters of a script that has them; Chinese has none."""
    before = r"(?<![^\W_])" if _spaced(wording[:1]) else ""
    after = r"(?![^\W_])" if _spaced(wording[-1:]) else ""
    return f"{before}{re.escape(wording)}{after}"


def _spaced(letter: str) -> bool:
    return letter.isalnum() and not "\u3040" <= letter <= "\u9fff"


FACTS = Facts()
