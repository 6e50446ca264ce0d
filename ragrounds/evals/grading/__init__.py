"""Long answers graded by a judge against a gold: equivalence (OGCaReBench), statements (K-QA).

A grade is a score with the calls that it took. What the judge could not say is missing, never right or wrong.
"""

from ragrounds.evals.grading.equivalence import Equivalence
from ragrounds.evals.grading.grade import Grade, Grader, judges_itself
from ragrounds.evals.grading.panel import PanelGrades, grade_by_panel
from ragrounds.evals.grading.run import GradedRun, grade_run
from ragrounds.evals.grading.running import grade_attempts
from ragrounds.evals.grading.statements import Statements

__all__ = [
    "Equivalence",
    "Grade",
    "GradedRun",
    "Grader",
    "PanelGrades",
    "Statements",
    "grade_attempts",
    "grade_by_panel",
    "grade_run",
    "judges_itself",
]
