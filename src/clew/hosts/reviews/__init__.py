"""Reviews: rounds over a diff, each with findings."""
