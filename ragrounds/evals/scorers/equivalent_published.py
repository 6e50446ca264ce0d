"""Scorer ``equivalent-published``: OGCaReBench's judge by the rules in its paper (Fig. 11), as a variant of
``equivalent``.

The paper's judge sees two texts, the reference answer and the response, and not the question. Doses, frequencies and
techniques do not count unless they make another kind of action of it; another stage or intent of care (watching in
place of intervening, a drug in place of surgery) is a mismatch. ``equivalent`` shows the question too, makes the judge
state first what both texts conclude, and rules out an answer that advises against the reference's action. Wording and
examples are this package's own in both, and both verdicts are read from a JSON object, where the paper asks for a
single word.
"""

from __future__ import annotations

from ragrounds.evals.scorers.equivalent import Equivalence
from ragrounds.evals.scorers.judged import JudgedScorer

EQUIVALENT_PUBLISHED = JudgedScorer(
    name="equivalent-published",
    accuracy=True,
    judging="equivalence-published",
    summary="share of equivalent answers, by the paper's rules",
    method="the share of answers that a judge found equivalent to the reference by OGCaReBench's published rules, "
    "without sight of the question",
)

EQUIVALENCE_PUBLISHED = Equivalence(
    name="equivalence-published",
    scorers=(EQUIVALENT_PUBLISHED,),
    prompts=("judge/equivalent_published",),
    shows_question=False,
)
