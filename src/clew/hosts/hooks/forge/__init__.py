"""GitHub, Gitea and Forgejo: their events read, and their API called."""
