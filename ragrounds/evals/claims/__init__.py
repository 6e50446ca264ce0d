"""Claims about runs: their language, the gate, and stopping when a claim is decided."""
