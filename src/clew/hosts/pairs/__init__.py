"""Pairs: an instructor plans and a worker carries out, round by round."""
