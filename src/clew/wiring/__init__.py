"""The composition root: the one place that knows the concrete classes."""
