"""The operations of the store, one module a table."""
