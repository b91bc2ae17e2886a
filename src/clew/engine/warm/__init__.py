"""Agents that are kept between two turns of a thread, so that the next turn need not start one."""
