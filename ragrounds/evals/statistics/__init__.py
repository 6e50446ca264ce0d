"""Statistics of scores: intervals, paired differences, tests. Pure functions of numbers."""

from ragrounds.evals.statistics.bootstrap import macro_error, paired_difference, stratified_mean
from ragrounds.evals.statistics.intervals import Estimate, binomial_error, bounds, proportion, wilson
from ragrounds.evals.statistics.paired import McNemar, detectable_difference, holm, mcnemar

__all__ = [
    "Estimate",
    "McNemar",
    "binomial_error",
    "bounds",
    "detectable_difference",
    "holm",
    "macro_error",
    "mcnemar",
    "paired_difference",
    "proportion",
    "stratified_mean",
    "wilson",
]
