"""One replay spread over several processes, on one machine or on many."""
