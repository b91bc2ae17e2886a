"""A project's rules for agents: which files hold them, and how they are worded."""
