"""What is said to be UTC is UTC, wherever the machine stands."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ragrounds.evals.store.run_facts import span_of_searches
from ragrounds.ui.comparison_words import span_of_days
from ragrounds.ui.leaderboard.board import day

EVENING = 1_700_000_000 + 6 * 3600
"""2023-11-15, 04:13 UTC."""
