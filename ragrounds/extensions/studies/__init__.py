"""Studies: many runs that make one table of a paper."""

BASES = ("construction", "exchange")
FUNCTIONS = (
    "ragrounds.extensions.studies.functions:study",
    "ragrounds.extensions.studies.functions:StudyResult",
    "ragrounds.extensions.studies.call:StudyListener",
)
