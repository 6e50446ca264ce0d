"""What evidence did: stored attempts made again with one thing changed, against the same with nothing changed."""
