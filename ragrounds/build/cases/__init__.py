"""`case-questions` (OGCaReBench, Section 3.1): from case reports to questions that ask for the next step."""
