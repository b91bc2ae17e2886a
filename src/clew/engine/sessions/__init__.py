"""Agents' session files: how they are read, adopted, copied for a fork, and moved to another machine."""
