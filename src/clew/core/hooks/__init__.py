"""Hooks: events of a forge, rules that match them, session keys, settings, and what prompts say about forge text."""
