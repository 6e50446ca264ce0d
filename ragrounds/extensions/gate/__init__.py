"""Release gate: a policy of claims in tiers, and the pytest plugin that checks claims about agents in tests.

pytest finds the plugin by the entry point ``pytest11`` of pyproject.toml, which goes with this folder.
"""

FUNCTIONS = ("ragrounds.extensions.gate.functions:gate",)
