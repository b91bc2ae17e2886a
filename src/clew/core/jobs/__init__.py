"""Jobs: what follows from the end of each run."""
