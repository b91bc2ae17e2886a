"""Pairs of an instructor and a worker: their records, and the prompts of their rounds."""
