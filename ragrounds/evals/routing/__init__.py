"""Which agent for which question: policies over runs that were made already."""
