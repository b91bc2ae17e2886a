"""The command `clew pair`."""
