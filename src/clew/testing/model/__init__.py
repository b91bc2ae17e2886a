"""A scripted model API with the accounting of a prompt cache."""
