"""Pairs: an instructor plans, a worker does, round by round."""
