"""Pairs: an instructor and a worker, the state between rounds, and how a round is worded."""
