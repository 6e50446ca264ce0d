"""Import of other systems' answers and export of runs for other tools."""

BASES = ("retrieval",)  # TREC runs are written by its format
FUNCTIONS = (
    "ragrounds.extensions.exchange.functions:export",
    "ragrounds.extensions.exchange.functions:import_store",
    "ragrounds.extensions.exchange.imports:import_runs",
)
