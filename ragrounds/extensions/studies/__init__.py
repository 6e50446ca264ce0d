"""Studies: sets of runs that reproduce a table of a paper."""

BASES = ("arena", "construction", "exchange", "retrieval")
FUNCTIONS = (
    "ragrounds.extensions.studies.functions:study",
    "ragrounds.extensions.studies.functions:StudyResult",
    "ragrounds.extensions.studies.call:StudyListener",
)
