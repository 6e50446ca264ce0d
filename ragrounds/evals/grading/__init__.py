"""Long answers graded by a judge: equivalence (OGCaReBench), statements (K-QA), ragas' figures.

A grade is a score with the calls that it took. What the judge could not say is missing, never right or wrong.
"""

from ragrounds.evals.grading.equivalence import Equivalence
from ragrounds.evals.grading.grade import Grade, Grader, judges_itself
from ragrounds.evals.grading.kinds import KINDS, Kind, Means, gradable, kind, labelling, verdicts
from ragrounds.evals.grading.panel import PanelGrades, grade_by_panel
from ragrounds.evals.grading.panel_run import PanelGradedRun
from ragrounds.evals.grading.run import GradedRun
from ragrounds.evals.grading.running import grade_attempts
from ragrounds.evals.grading.several import INTERRUPTED, GradedRuns, grade_runs
from ragrounds.evals.grading.statements import Statements

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
