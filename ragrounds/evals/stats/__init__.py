"""Statistics of scores: intervals, paired differences, tests. Pure functions of numbers."""

from ragrounds.evals.stats.agreement import (
    FEWEST_FOR_KAPPA,
    Agreement,
    cohen_kappa,
    compare_with_human,
    constant_raters,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
)
from ragrounds.evals.stats.estimates import (
    combined_mean,
    combined_ratio,
    group_difference,
    paired_difference,
    stratified_mean,
)
from ragrounds.evals.stats.intervals import Estimate, binomial_error, macro_error
from ragrounds.evals.stats.paired import holm, minimum_detectable_effect

__all__ = [
    "FEWEST_FOR_KAPPA",
    "Agreement",
    "Estimate",
    "binomial_error",
    "cohen_kappa",
    "combined_mean",
    "combined_ratio",
    "compare_with_human",
    "constant_raters",
    "fleiss_kappa",
    "group_difference",
    "holm",
    "krippendorff_alpha",
    "macro_error",
    "majority",
    "minimum_detectable_effect",
    "paired_difference",
    "stratified_mean",
]
