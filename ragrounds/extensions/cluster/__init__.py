"""Run the questions of one run in several processes or on a Ray cluster, and keep runs in PostgreSQL."""
