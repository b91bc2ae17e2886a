"""The commands `clew threads fork`, `merge`, `diff` and `replay`."""
