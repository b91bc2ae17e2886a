"""The command `clew demo`."""
