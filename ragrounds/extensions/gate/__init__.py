"""Release gate by a policy of claims, claims about agents as tests (pytest), and journal files that both replay.

pytest finds the plugin by the entry point ``pytest11`` of pyproject.toml, which goes with this folder.
"""

FUNCTIONS = ("ragrounds.extensions.gate.functions:gate",)
