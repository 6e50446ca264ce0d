"""The terminal and HTML views. They render results and compute nothing."""
