"""Pages that are published: a leaderboard of many runs and studies, and what its links lead to."""
