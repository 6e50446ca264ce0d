"""Import of other systems' answers and export of runs for other tools."""

FUNCTIONS = (
    "ragrounds.api.exchange:export",
    "ragrounds.api.exchange:import_store",
    "ragrounds.api.imports:import_runs",
)
