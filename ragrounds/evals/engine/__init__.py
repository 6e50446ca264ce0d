"""Running of attempts: plans, scheduling, contexts, recording, budgets and progress."""
