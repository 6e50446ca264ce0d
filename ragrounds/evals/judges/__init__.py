"""Long answers graded by a judge: equivalence (OGCaReBench), statements (K-QA), ragas' figures.

A grade is a score with the calls that it took. What the judge could not say is missing, never right or wrong.
"""

from ragrounds.evals.judges.attempts import AttemptJudge, Grade, judge_attempts, judges_itself
from ragrounds.evals.judges.bill import JudgedRun
from ragrounds.evals.judges.equivalence import Equivalence
from ragrounds.evals.judges.kinds import KINDS, Kind, Means, judgeable, kind, labelling, verdicts
from ragrounds.evals.judges.panel import PanelJudgedRun, PanelResult, judge_by_panel
from ragrounds.evals.judges.runs import INTERRUPTED, JudgedRuns, judge_runs
from ragrounds.evals.judges.statements import Statements

__all__ = [
    "INTERRUPTED",
    "KINDS",
    "AttemptJudge",
    "Equivalence",
    "Grade",
    "JudgedRun",
    "JudgedRuns",
    "Kind",
    "Means",
    "PanelJudgedRun",
    "PanelResult",
    "Statements",
    "judge_attempts",
    "judge_by_panel",
    "judge_runs",
    "judgeable",
    "judges_itself",
    "kind",
    "labelling",
    "verdicts",
]
