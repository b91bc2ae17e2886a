"""Jobs: work that continues after time-outs, crashes and lost machines."""
