"""Imports reviews of older tools."""
