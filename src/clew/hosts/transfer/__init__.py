"""Threads in files and on other machines: export, import, archive, push and pull."""
