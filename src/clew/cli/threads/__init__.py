"""The command `clew threads` and those below it."""
