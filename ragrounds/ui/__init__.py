"""The terminal and HTML views. They draw; they decide nothing."""
