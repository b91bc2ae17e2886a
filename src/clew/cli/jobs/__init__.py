"""The commands `clew jobs` and `clew work`."""
