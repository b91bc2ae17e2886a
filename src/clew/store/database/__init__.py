"""Connections, transactions, migrations and the SQL files; one module a kind of database."""
