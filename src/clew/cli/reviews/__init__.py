"""The command `clew review` and those below it."""
