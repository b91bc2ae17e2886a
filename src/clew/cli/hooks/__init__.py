"""The command `clew hooks` and those below it."""
