"""Benchmarks: loaders, cards, samples.

`load` reads what a reference names, `select` draws from it; :class:`Benchmark` is what both give.
"""

from ragrounds.evals.benchmarks.benchmark import Benchmark, Selection, select
from ragrounds.evals.benchmarks.cards import Card, all_cards, card
from ragrounds.evals.benchmarks.catalogue import known, load
from ragrounds.evals.benchmarks.registry import Checked, known_card, register, verify

__all__ = [
    "Benchmark",
    "Card",
    "Checked",
    "Selection",
    "all_cards",
    "card",
    "known",
    "known_card",
    "load",
    "register",
    "select",
    "verify",
]
