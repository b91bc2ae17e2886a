"""Runs: their states, events, answers, tool calls, questions, permissions and usage limits."""
