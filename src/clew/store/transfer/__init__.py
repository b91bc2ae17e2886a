"""Rows of a thread in a file: how they are encoded, checked and restored."""
