"""The session files of agents: observed, adopted, copied for a fork, moved to another machine."""
