"""Recording what systems that are not ours ask, where it leaves the process."""
