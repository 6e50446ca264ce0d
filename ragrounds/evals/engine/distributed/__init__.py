"""One replay by several processes, on one machine or on many: a leader hands out questions, workers answer them."""
