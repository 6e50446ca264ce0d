"""`relevance-mining` (R2MED, Section 3.3): which documents of a corpus hold what a question's answer rests on."""
