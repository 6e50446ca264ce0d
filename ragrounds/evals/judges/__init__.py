"""Long answers graded by a judge: equivalence (OGCaReBench), statements (K-QA), ragas' figures.

A grade is a score with the calls that it took. What the judge could not say is missing, never right or wrong.
"""

from ragrounds.evals.judges.equivalence import Equivalence
from ragrounds.evals.judges.grade import Grade, Grader, judges_itself
from ragrounds.evals.judges.kinds import KINDS, Kind, Means, gradable, kind, labelling, verdicts
from ragrounds.evals.judges.panel import PanelGrades, grade_by_panel
from ragrounds.evals.judges.panel_run import PanelGradedRun
from ragrounds.evals.judges.run import GradedRun
from ragrounds.evals.judges.running import grade_attempts
from ragrounds.evals.judges.several import INTERRUPTED, GradedRuns, grade_runs
from ragrounds.evals.judges.statements import Statements

__all__ = [
    "INTERRUPTED",
    "KINDS",
    "Equivalence",
    "Grade",
    "GradedRun",
    "GradedRuns",
    "Grader",
    "Kind",
    "Means",
    "PanelGradedRun",
    "PanelGrades",
    "Statements",
    "gradable",
    "grade_attempts",
    "grade_by_panel",
    "grade_runs",
    "judges_itself",
    "kind",
    "labelling",
    "verdicts",
]
