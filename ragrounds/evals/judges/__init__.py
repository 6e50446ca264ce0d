"""LLM judges: asking for a verdict, pairs, panels, calibration against people, and stored runs judged.

Which questions a judge is asked, and what scores its verdicts make, stands in the scorers
(:mod:`ragrounds.evals.scorers.judged`).
"""
