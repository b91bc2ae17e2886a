"""Tokens and money: what a run used, and what the alternatives would have cost."""
