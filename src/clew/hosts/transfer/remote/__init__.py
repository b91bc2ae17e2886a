"""Remotes: threads in chunks under one address, pushed and pulled."""
