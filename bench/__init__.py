"""Measurements of Clew. Each is a module with a function `measure(quick)`. Run them with `python -m bench` at the
repository's root."""
