"""Forks, comparisons and merges of threads."""
