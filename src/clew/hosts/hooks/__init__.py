"""Hooks: a forge sends an event, and the right agent continues in the right work tree."""
