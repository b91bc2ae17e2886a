"""The bodies of requests and responses, and problem details."""
