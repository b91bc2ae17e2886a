"""Reviews: rounds, findings, and how a round is worded."""
