"""Reviews: rounds, findings and prompts."""
