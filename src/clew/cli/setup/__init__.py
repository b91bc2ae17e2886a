"""The commands `clew doctor`, `clew config` and `clew completion`."""
