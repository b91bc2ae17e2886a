"""Agent processes: how they are started, read, found again after a crash, and ended."""
