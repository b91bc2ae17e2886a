"""Agent processes: started below a parent of their own, framed, found again and ended."""
