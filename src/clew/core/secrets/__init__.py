"""Secrets: what they look like, how they are blanked, and whether a text leaks one."""
