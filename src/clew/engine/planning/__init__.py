"""From a request to a stored decision: the plan of an attempt, its preview, its explanation, and warnings."""
