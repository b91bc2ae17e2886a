"""Replaces what a user typed, `@path` and `/command`, by what it stands for. Once, when the prompt is accepted."""
