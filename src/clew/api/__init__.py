"""The Python API, and all that a surface may call."""
