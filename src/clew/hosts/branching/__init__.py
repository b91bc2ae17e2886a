"""Threads made from threads: fork, merge, replay; and two of them compared."""
