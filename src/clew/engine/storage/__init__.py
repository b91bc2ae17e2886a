"""The store as async code calls it: in a thread of its own, and retried while it is away."""
