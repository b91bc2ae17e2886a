"""New threads from existing ones: fork, merge and replay; and the comparison of two threads."""
