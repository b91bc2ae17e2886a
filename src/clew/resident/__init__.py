"""The thin way from the command line to a running resident. It imports the standard library alone, and little of it.

Each module says in its docstring what it is for. Theory of operation: ADR 62.
"""
