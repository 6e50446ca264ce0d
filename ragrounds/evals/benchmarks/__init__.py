"""Benchmarks: families that read them, cards that describe them, registered copies, samples, audits.

`load` reads the benchmark that a reference names, `select` samples from it; both return a :class:`Benchmark`.
"""

from ragrounds.evals.benchmarks.benchmark import Benchmark, Selection, select
from ragrounds.evals.benchmarks.cards import Card, all_cards, card
from ragrounds.evals.benchmarks.catalogue import benchmark_names, load
from ragrounds.evals.benchmarks.registry import VerifiedBenchmark, known_card, register, verify

__all__ = [
    "Benchmark",
    "Card",
    "Selection",
    "VerifiedBenchmark",
    "all_cards",
    "benchmark_names",
    "card",
    "known_card",
    "load",
    "register",
    "select",
    "verify",
]
