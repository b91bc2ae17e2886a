"""The command `clew runs` and those below it."""
