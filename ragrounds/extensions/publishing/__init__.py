"""Bundles of runs, their verification, and the leaderboard made of studies."""

BASES = ("studies",)
FUNCTIONS = (
    "ragrounds.api.publish:publish",
    "ragrounds.api.verify:verify",
)
