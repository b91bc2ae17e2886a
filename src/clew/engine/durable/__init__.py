"""Durable work on any number of machines: workers, their claims and the queue (DBOS)."""
