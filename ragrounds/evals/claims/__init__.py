"""Claims about runs: their language, and stopping when a claim is decided."""
