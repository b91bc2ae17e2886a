"""From a request to a decision that is stored: the plan of an attempt, its preview, and warnings before it starts."""
