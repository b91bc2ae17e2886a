"""How agents are shown a project's rules."""
