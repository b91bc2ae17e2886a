"""The operations of the store, one module for each table."""
