"""LLM judges: asking for a verdict, pairs, panels, calibration against people, and judging of stored runs.

The scorers (:mod:`ragrounds.evals.scorers.judged`) define which questions a judge is asked and which scores its
verdicts make.
"""
