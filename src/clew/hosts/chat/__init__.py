"""Chat: a thread with a person in it."""
