"""Construction of benchmarks: stages that make and check questions, each call journaled."""
