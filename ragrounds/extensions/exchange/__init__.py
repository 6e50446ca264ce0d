"""Import of other systems' answers and export of runs for other tools."""

FUNCTIONS = (
    "ragrounds.extensions.exchange.functions:export",
    "ragrounds.extensions.exchange.functions:import_store",
    "ragrounds.extensions.exchange.imports:import_runs",
)
