"""What the engine's callers know of git: snapshots, diffs, checkpoints, work trees."""
