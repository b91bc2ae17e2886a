"""Connections, transactions, migrations and the SQL files; one module for each kind of database."""
