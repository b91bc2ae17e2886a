"""Measurements of Clew, each a module with a `measure(quick)`. Run with `python -m bench` at the repository's root."""
