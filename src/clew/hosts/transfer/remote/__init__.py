"""A remote: threads in pieces under one address, pushed and pulled."""
