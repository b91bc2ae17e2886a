"""GitHub, Gitea and Forgejo: reads their events and calls their APIs."""
