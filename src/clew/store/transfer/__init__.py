"""Rows that come out of a file: checked, and restored."""
