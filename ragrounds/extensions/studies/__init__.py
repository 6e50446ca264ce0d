"""Studies: many runs that make one table of a paper."""

BASES = ("construction", "exchange")
FUNCTIONS = (
    "ragrounds.api.study:study",
    "ragrounds.api.study:StudyResult",
    "ragrounds.api.study_call:StudyListener",
)
