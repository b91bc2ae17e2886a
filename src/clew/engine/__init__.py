"""One turn end to end: the queue, the plan, the attempt, its end, and recovery after a crash."""
