"""Statistics of scores: intervals, paired differences, tests. Pure functions of numbers."""

from ragrounds.evals.stats.agreement import (
    Agreement,
    cohen_kappa,
    compare_with_human,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
)
from ragrounds.evals.stats.bootstrap import macro_error, paired_difference, ratio_of_sums, stratified_mean
from ragrounds.evals.stats.intervals import Estimate, binomial_error, bounds, proportion, wilson
from ragrounds.evals.stats.paired import McNemar, detectable_difference, holm, mcnemar

__all__ = [
    "Agreement",
    "Estimate",
    "McNemar",
    "binomial_error",
    "bounds",
    "cohen_kappa",
    "compare_with_human",
    "detectable_difference",
    "fleiss_kappa",
    "holm",
    "krippendorff_alpha",
    "macro_error",
    "majority",
    "mcnemar",
    "paired_difference",
    "proportion",
    "ratio_of_sums",
    "stratified_mean",
    "wilson",
]
