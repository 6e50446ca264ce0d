"""Recording of the calls that foreign systems send out of the process."""
