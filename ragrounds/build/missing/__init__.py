"""`false-negatives` (CMedTEB, Appendix E, Table 20): how many relevant documents do a benchmark's labels miss?"""
