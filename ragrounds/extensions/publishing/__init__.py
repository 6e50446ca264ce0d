"""Bundles of runs, their verification, and the leaderboard made of studies."""

BASES = ("studies",)
FUNCTIONS = (
    "ragrounds.extensions.publishing.publish:publish",
    "ragrounds.extensions.publishing.verify:verify",
)
